package org.moirae.patterns;

import java.io.Serializable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A regular expression with the results of Spark's functions, whose steps are counted: it throws
 * {@link PatternLimitExceeded} where backtracking would take minutes.
 */
public final class CountedPattern implements Serializable {
  private static final long serialVersionUID = 1;

  private final String regex;
  private transient Pattern pattern;

  private CountedPattern(String regex) {
    this.regex = regex;
    pattern = Pattern.compile(regex);
  }

  /** Throws {@link java.util.regex.PatternSyntaxException}. */
  static CountedPattern of(String regex) {
    return new CountedPattern(regex);
  }

  /** A pattern that is found in the same texts as `regex`, see {@link PatternEnds}. */
  static CountedPattern forSearch(String regex) {
    return new CountedPattern(PatternEnds.trim(regex));
  }

  /** As RLIKE. */
  public boolean isFound(UTF8String value) {
    return matcher(value.toString()).find(0);
  }

  /** As `regexp_extract`, for an existing group. */
  public UTF8String extract(UTF8String value, int group) {
    Matcher matcher = matcher(value.toString());
    if (!matcher.find()) {
      return UTF8String.EMPTY_UTF8;
    }
    String text = matcher.group(group);
    return text == null ? UTF8String.EMPTY_UTF8 : UTF8String.fromString(text);
  }

  /** As `regexp_replace` from the first character on. */
  public UTF8String replace(UTF8String value, UTF8String replacement) {
    Matcher matcher = matcher(value.toString());
    String text = replacement.toString();
    StringBuilder result = new StringBuilder();
    while (matcher.find()) {
      matcher.appendReplacement(result, text);
    }
    return UTF8String.fromString(matcher.appendTail(result).toString());
  }

  /** As `split`, for a pattern that is not empty. */
  public ArrayData split(UTF8String value, int limit) {
    String[] parts =
        pattern().split(new CountedText(value.toString(), regex), limit == 0 ? -1 : limit);
    Object[] values = new Object[parts.length];
    for (int i = 0; i < parts.length; i++) {
      values[i] = UTF8String.fromString(parts[i]);
    }
    return new GenericArrayData(values);
  }

  int groupCount() {
    return pattern().matcher("").groupCount();
  }

  private Matcher matcher(String text) {
    return pattern().matcher(new CountedText(text, regex));
  }

  private Pattern pattern() {
    Pattern compiled = pattern;
    if (compiled == null) { // it was read from a stream
      compiled = Pattern.compile(regex);
      pattern = compiled;
    }
    return compiled;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof CountedPattern counted && counted.regex.equals(regex);
  }

  @Override
  public int hashCode() {
    return regex.hashCode();
  }

  @Override
  public String toString() {
    return regex;
  }
}
