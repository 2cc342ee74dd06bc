package org.moirae.filters;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.util.CloseableIterator;

/**
 * Evaluates filters over rows in this JVM by the expressions of Spark, without a job: to plan a
 * statement takes longer than to evaluate a thousand filters over some rows.
 *
 * <p>A filter is an expression that is NULL, or a struct of a number, the time of an event and its
 * attributes as text. An instance is used by one thread.
 */
public final class RowFilters {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final FilterCompiler compiler;
  private final Map<Integer, Expression> filters = new HashMap<>();
  private int nextNumber;

  public RowFilters(SparkSession session) {
    compiler = new FilterCompiler(session);
  }

  /**
   * Compiles filters over the rows of a view, which it replaces.
   *
   * @param rows an Arrow stream with the columns of the view
   * @param queries JSON: a list of queries, each of which selects a filter from the view
   * @return JSON: the number of each filter; null for one that cannot be evaluated so
   */
  public String compile(String view, byte[] rows, String queries) throws JsonProcessingException {
    compiler.createView(view, ArrowConverters$.MODULE$.fromIPCStream(rows)._2());
    List<Integer> numbers = new ArrayList<>();
    for (String query : JSON.readValue(queries, String[].class)) {
      Expression filter = compiler.compile(query);
      numbers.add(filter == null ? null : nextNumber);
      if (filter != null) {
        filters.put(nextNumber++, filter);
      }
    }
    return JSON.writeValueAsString(numbers);
  }

  /** Forgets filters by their numbers, a JSON list. */
  public void remove(String numbers) throws JsonProcessingException {
    filters.keySet().removeAll(Arrays.asList(JSON.readValue(numbers, Integer[].class)));
  }

  /**
   * Evaluates filters over rows.
   *
   * @param rows an Arrow stream with the columns for which the filters were compiled
   * @param numbers JSON: the numbers of filters
   * @param rowLimit seconds of processor time that a filter may take for a row
   * @param limit seconds of processor time after which no other filter is evaluated
   * @return JSON: a {@link FilterResult} for each filter; null for one that was not evaluated
   */
  public String evaluate(byte[] rows, String numbers, double rowLimit, double limit)
      throws Exception {
    List<InternalRow> rowList = new ArrayList<>();
    try (CloseableIterator<InternalRow> iterator = ArrowConverters$.MODULE$.fromIPCStream(rows)._1()) {
      while (iterator.hasNext()) {
        rowList.add(iterator.next().copy());
      }
    }
    double end = FilterResult.processorSeconds() + limit;
    List<FilterResult> results = new ArrayList<>();
    for (int number : JSON.readValue(numbers, int[].class)) {
      boolean isLate = FilterResult.processorSeconds() > end;
      results.add(isLate ? null : FilterResult.of(filters.get(number), rowList, rowLimit));
    }
    return JSON.writeValueAsString(results);
  }
}
