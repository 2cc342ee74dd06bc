package org.moirae.filters;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.moirae.patterns.PatternLimitExceeded;

/**
 * What a filter says about rows: its events, and the rows for which it exceeded a limit.
 *
 * <p>`failedRow`: the row for which it failed, where its evaluation ended; null if it did not.
 */
public final class FilterResult {
  /** The time and the attributes of an event. */
  public record Event(long time, String attributes) {}

  /** A row by its number, and why the filter has no verdict. */
  public record Reason(int row, String message) {}

  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final double NANOS = 1e9; // of a second

  public final List<Event> events = new ArrayList<>();
  public final List<Reason> lost = new ArrayList<>();
  public Reason failed;
  public double seconds;

  private double startSeconds;

  private FilterResult() {}

  static double processorSeconds() {
    return THREADS.getCurrentThreadCpuTime() / NANOS;
  }

  static FilterResult of(Expression filter, List<InternalRow> rows, double rowLimit) {
    FilterResult result = new FilterResult();
    result.startSeconds = processorSeconds();
    for (int row = 0; row < rows.size() && result.failed == null; row++) {
      result.add(filter, rows.get(row), row, rowLimit);
    }
    result.seconds = processorSeconds() - result.startSeconds;
    return result;
  }

  private void add(Expression filter, InternalRow values, int row, double rowLimit) {
    long start = System.nanoTime();
    try {
      InternalRow event = (InternalRow) filter.eval(values);
      boolean isLong = (System.nanoTime() - start) / NANOS > rowLimit;
      if (isLong && processorSeconds() - startSeconds > rowLimit) {
        String limit = String.format("%.3g", rowLimit);
        lost.add(new Reason(row, "exceeded its time limit of " + limit + " s of processor time"));
      } else if (event != null) {
        events.add(new Event(event.getLong(1), event.getUTF8String(2).toString()));
      }
    } catch (Exception | StackOverflowError error) {
      PatternLimitExceeded limit = findLimit(error);
      if (limit == null) {
        failed = new Reason(row, String.valueOf(error.getMessage()));
      } else {
        lost.add(new Reason(row, limit.getMessage()));
      }
    }
  }

  private static PatternLimitExceeded findLimit(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof PatternLimitExceeded limit) {
        return limit;
      }
    }
    return null;
  }
}
