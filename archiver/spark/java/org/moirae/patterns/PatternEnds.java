package org.moirae.patterns;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Removes `.*` at the start and end of a regular expression.
 *
 * <p>It is found in the same texts without them: `.*` matches the empty text, too. With them the
 * time of a search grows with the square of the length of a text.
 */
final class PatternEnds {
  private static final Pattern FLAGS = Pattern.compile("\\(\\?[idmsuU]+\\)");
  private static final String ANY = ".*";

  private PatternEnds() {}

  static String trim(String regex) {
    if (regex.contains("\\Q")) {
      return regex; // a quoted text may look like `.*`
    }
    Matcher flags = FLAGS.matcher(regex);
    int start = flags.lookingAt() ? flags.end() : 0;
    String body = regex.substring(start);
    if (body.contains("(?x") || body.matches("(?s).*\\(\\?[a-wyzU]*x.*")) {
      return regex; // white space and comments are no part of the pattern
    }
    while (body.startsWith(ANY) && !isQuantified(body, ANY.length())) {
      body = body.substring(ANY.length());
    }
    while (body.endsWith(ANY) && !isEscaped(body, body.length() - ANY.length())) {
      body = body.substring(0, body.length() - ANY.length());
    }
    return regex.substring(0, start) + body;
  }

  private static boolean isQuantified(String body, int position) {
    return position < body.length() && "+?*{".indexOf(body.charAt(position)) >= 0;
  }

  /** Whether the character at a position follows an odd number of backslashes. */
  private static boolean isEscaped(String body, int position) {
    int backslashes = 0;
    while (backslashes < position && body.charAt(position - 1 - backslashes) == '\\') {
      backslashes++;
    }
    return backslashes % 2 == 1;
  }
}
