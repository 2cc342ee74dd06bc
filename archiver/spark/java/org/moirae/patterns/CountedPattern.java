package org.moirae.patterns;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.sql.catalyst.expressions.RegExpExtractBase;
import org.apache.spark.sql.catalyst.expressions.url.ParseUrlEvaluator;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapBuilder;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.errors.QueryExecutionErrors;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Spark's functions with regular expressions, whose steps are counted: they throw {@link
 * PatternLimitExceeded} where backtracking would take minutes.
 *
 * <p>It keeps the last pattern that it compiled: patterns of a column may change with each row.
 */
public final class CountedPattern implements Serializable {
  private static final long serialVersionUID = 3;
  private static final UTF8String QUERY = UTF8String.fromString("QUERY");

  private final PatternForm form;
  private final int flags;
  private transient volatile Compiled last;
  private transient volatile CountedPattern keys; // of `toMap`

  private record Compiled(UTF8String source, Pattern pattern) {}

  CountedPattern(PatternForm form, int flags) {
    this.form = form;
    this.flags = flags;
  }

  /** As RLIKE. */
  public boolean isFound(UTF8String value, UTF8String regex) {
    return matcher(value, regex, "rlike").find(0);
  }

  /** As LIKE. */
  public boolean isLike(UTF8String value, UTF8String pattern) {
    return matcher(value, pattern, "like").matches();
  }

  /** As `regexp_extract`. */
  public UTF8String extract(UTF8String value, UTF8String regex, int group) {
    Matcher matcher = matcher(value, regex, "regexp_extract");
    return matcher.find() ? groupOf(matcher, group, "regexp_extract") : UTF8String.EMPTY_UTF8;
  }

  /** As `regexp_extract_all`. */
  public ArrayData extractAll(UTF8String value, UTF8String regex, int group) {
    Matcher matcher = matcher(value, regex, "regexp_extract_all");
    List<Object> groups = new ArrayList<>();
    while (matcher.find()) {
      groups.add(groupOf(matcher, group, "regexp_extract_all"));
    }
    return new GenericArrayData(groups.toArray());
  }

  /** As `regexp_instr`, which ignores the group. */
  public int position(UTF8String value, UTF8String regex, int group) {
    Matcher matcher = matcher(value, regex, "regexp_instr");
    return matcher.find() ? matcher.start() + 1 : 0;
  }

  /** As `regexp_replace`. `start`: the first character that may be replaced, from 1 on. */
  public UTF8String replace(UTF8String value, UTF8String regex, UTF8String replacement, int start) {
    String text = value.toString();
    if (start > 1 && start > text.length()) {
      return value;
    }
    Matcher matcher = matcher(value, regex, "regexp_replace").region(start - 1, text.length());
    String replacementText = replacement.toString();
    StringBuilder result = new StringBuilder();
    while (matcher.find()) {
      try {
        matcher.appendReplacement(result, replacementText);
      } catch (IllegalArgumentException | IndexOutOfBoundsException error) {
        throw QueryExecutionErrors.invalidRegexpReplaceError(
            text, regex.toString(), replacementText, start, error);
      }
    }
    return UTF8String.fromString(matcher.appendTail(result).toString());
  }

  /** As `split`. */
  public ArrayData split(UTF8String value, UTF8String regex, int limit) {
    return new GenericArrayData(divide(value, regex, limit, "split"));
  }

  /** As `str_to_map`. */
  public MapData toMap(UTF8String value, UTF8String pairDelimiter, UTF8String keyValueDelimiter) {
    ArrayBasedMapBuilder map =
        new ArrayBasedMapBuilder(DataTypes.StringType, DataTypes.StringType);
    for (UTF8String pair : divide(value, pairDelimiter, -1, "str_to_map")) {
      // Another instance, so that each of them keeps its pattern.
      UTF8String[] parts = keys().divide(pair, keyValueDelimiter, 2, "str_to_map");
      map.put(parts[0], parts.length < 2 ? null : parts[1]);
    }
    return map.build();
  }

  /** As `parse_url` with a key. */
  public UTF8String queryValue(UTF8String url, UTF8String part, UTF8String key, boolean isStrict) {
    if (!part.equals(QUERY)) {
      return null;
    }
    ParseUrlEvaluator evaluator = new ParseUrlEvaluator(null, null, null, isStrict);
    UTF8String query = (UTF8String) evaluator.evaluate(url, part);
    if (query == null) {
      return null;
    }
    Matcher matcher = matcher(query, key, "parse_url");
    return matcher.find() ? UTF8String.fromString(matcher.group(2)) : null;
  }

  private CountedPattern keys() {
    if (keys == null) {
      keys = new CountedPattern(form, flags);
    }
    return keys;
  }

  private UTF8String[] divide(UTF8String value, UTF8String regex, int limit, String function) {
    if (regex.numBytes() == 0) {
      return value.split(regex, limit);
    }
    String[] parts =
        compile(regex, function)
            .split(new CountedText(value.toString(), regex), limit == 0 ? -1 : limit);
    UTF8String[] texts = new UTF8String[parts.length];
    for (int i = 0; i < parts.length; i++) {
      texts[i] = UTF8String.fromString(parts[i]);
    }
    return texts;
  }

  private static UTF8String groupOf(Matcher matcher, int group, String function) {
    RegExpExtractBase.checkGroupIndex(function, matcher.groupCount(), group);
    String text = matcher.group(group);
    return text == null ? UTF8String.EMPTY_UTF8 : UTF8String.fromString(text);
  }

  private Matcher matcher(UTF8String value, UTF8String source, String function) {
    return compile(source, function).matcher(new CountedText(value.toString(), source));
  }

  private Pattern compile(UTF8String source, String function) {
    Compiled compiled = last;
    if (compiled == null || !compiled.source.equals(source)) {
      try {
        String regex = form.toRegex(source.toString());
        compiled = new Compiled(source.clone(), Pattern.compile(regex, flags));
      } catch (PatternSyntaxException error) {
        throw QueryExecutionErrors.invalidPatternError(function, source.toString(), error);
      }
      last = compiled;
    }
    return compiled.pattern;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof CountedPattern counted
        && counted.form.equals(form)
        && counted.flags == flags;
  }

  @Override
  public int hashCode() {
    return 31 * form.hashCode() + flags;
  }

  @Override
  public String toString() {
    return "counted";
  }
}
