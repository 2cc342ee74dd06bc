package org.moirae.patterns;

import org.apache.spark.unsafe.types.UTF8String;

/** A text that counts how often a character of it is read, and refuses more reads than a limit. */
final class CountedText implements CharSequence {
  // Reads for which a match is never stopped, and more for each character of the text. The first
  // take some ten milliseconds; a pattern that is linear reads a character some times.
  private static final long BASE_LIMIT = 5_000_000;
  private static final long LIMIT_PER_CHARACTER = 200;

  private final String text;
  private final UTF8String pattern;
  private final long limit;
  private long reads;

  CountedText(String text, UTF8String pattern) {
    this.text = text;
    this.pattern = pattern;
    limit = BASE_LIMIT + LIMIT_PER_CHARACTER * text.length();
  }

  @Override
  public char charAt(int index) {
    if (++reads > limit) {
      throw new PatternLimitExceeded(pattern.toString(), text.length(), limit);
    }
    return text.charAt(index);
  }

  @Override
  public int length() {
    return text.length();
  }

  @Override
  public CharSequence subSequence(int start, int end) {
    return text.substring(start, end);
  }

  @Override
  public String toString() {
    return text;
  }
}
