package org.moirae.patterns;

/** A regular expression needs too many steps for a value. */
public final class PatternLimitExceeded extends RuntimeException {
  private static final int MAX_PATTERN_LENGTH = 200; // characters of a pattern in a message

  PatternLimitExceeded(String pattern, int length, long limit) {
    super(
        String.format(
            "the regular expression %s needs more than %,d steps for a value of %,d characters",
            shorten(pattern), limit, length));
  }

  /** One line: readers of errors look for the message in a line. */
  private static String shorten(String regex) {
    String pattern = regex.replace("\r", "\\r").replace("\n", "\\n");
    if (pattern.length() <= MAX_PATTERN_LENGTH) {
      return pattern;
    }
    return pattern.substring(0, MAX_PATTERN_LENGTH) + "…";
  }
}
