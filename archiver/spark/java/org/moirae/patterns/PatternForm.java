package org.moirae.patterns;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.util.StringUtils;

/** How a pattern is written and used. `escape`: of LIKE. */
record PatternForm(Kind kind, char escape) implements Serializable {
  static final PatternForm REGEX = new PatternForm(Kind.REGEX, '\\');
  static final PatternForm SEARCH = new PatternForm(Kind.SEARCH, '\\');
  static final PatternForm QUERY_KEY = new PatternForm(Kind.QUERY_KEY, '\\');

  enum Kind {
    REGEX,
    SEARCH,
    QUERY_KEY,
    LIKE
  }

  static PatternForm like(char escape) {
    return new PatternForm(Kind.LIKE, escape);
  }

  boolean isRegex() {
    return kind != Kind.LIKE;
  }

  /** The regular expression to evaluate, see {@link PatternEnds}. */
  String toRegex(String pattern) {
    return switch (kind) {
      case REGEX -> pattern;
      case QUERY_KEY -> "(&|^)" + pattern + "=([^&]*)";
      case SEARCH -> PatternEnds.trim(pattern);
      case LIKE -> StringUtils.escapeLikeRegex(pattern, escape);
    };
  }
}
