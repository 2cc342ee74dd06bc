package org.moirae.plans;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.First;
import org.apache.spark.sql.catalyst.expressions.aggregate.Last;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandExecutionMode;
import scala.collection.Seq;

/**
 * Lists what Spark's plans of queries consist of, so that another process needs one call for many
 * queries instead of some for each node.
 *
 * <p>Each answer is JSON: for each query a list of distinct parts in the order of a walk of its plan,
 * or null if Spark rejects the query.
 */
public final class PlanReader {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int MAX_PARSED = 256; // plans that wait for their analysis
  // By the text of their queries; the oldest is dropped if one too many is never analysed.
  private static final Map<String, LogicalPlan> PARSED =
      Collections.synchronizedMap(
          new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, LogicalPlan> eldest) {
              return size() > MAX_PARSED;
            }
          });
  private static final int MAX_NODES = 20_000; // of a plan, or of one expression

  private PlanReader() {}

  private interface Reader {
    Object read(String sql) throws Exception;
  }

  /**
   * What the plans of queries consist of before any name in them is looked up. The plans are kept for
   * {@link #readAnalysed}: parsing takes as long as analysis.
   */
  public static String readParsed(SparkSession session, List<String> queries)
      throws JsonProcessingException {
    return read(
        queries,
        sql -> {
          LogicalPlan plan = session.sessionState().sqlParser().parsePlan(sql);
          PARSED.put(sql, plan);
          return listParsedParts(plan);
        });
  }

  /**
   * What the analysed plans of queries consist of, and their columns: see {@link #listAnalysedParts}.
   */
  public static String readAnalysed(SparkSession session, List<String> queries)
      throws JsonProcessingException {
    return read(
        queries,
        sql -> {
          LogicalPlan parsed = PARSED.remove(sql);
          if (parsed == null) {
            parsed = session.sessionState().sqlParser().parsePlan(sql);
          }
          LogicalPlan plan =
              session.sessionState().executePlan(parsed, CommandExecutionMode.SKIP()).analyzed();
          return Map.of("parts", listAnalysedParts(plan), "columns", plan.schema().json());
        });
  }

  private static String read(List<String> queries, Reader reader)
      throws JsonProcessingException {
    List<Object> answers = new ArrayList<>();
    for (String sql : queries) {
      Object answer = null;
      if (!Thread.currentThread().isInterrupted()) {
        try {
          answer = reader.read(sql);
        } catch (Exception | StackOverflowError error) {
          answer = null;
        }
      }
      answers.add(answer);
    }
    return JSON.writeValueAsString(answers);
  }

  private static List<Object> listParsedParts(LogicalPlan root) {
    Set<Object> parts = new LinkedHashSet<>();
    walk(
        root,
        true,
        plan -> {
          parts.add(List.of("node", nameOf(plan)));
          for (Expression expression : expressionsOf(plan)) {
            walk(expression, false, node -> parts.add(describeParsed(node)), parts);
          }
        },
        parts);
    return new ArrayList<>(parts);
  }

  private static Object describeParsed(TreeNode<?> node) {
    if (node instanceof UnresolvedFunction function) {
      return List.of("function", nameOf(node), String.valueOf(function.nameParts().last()));
    }
    return List.of("expression", nameOf(node));
  }

  /**
   * Nodes, expressions by class and function name, sources of values that are not deterministic,
   * and text that is converted to another type without a CAST in the query.
   */
  private static List<Object> listAnalysedParts(LogicalPlan root) {
    Set<Object> parts = new LinkedHashSet<>();
    walk(
        root,
        true,
        plan -> {
          boolean isForeignView = plan instanceof View view && !view.isTempView();
          parts.add(List.of(isForeignView ? "foreign view" : "node", nameOf(plan)));
          for (Expression expression : expressionsOf((LogicalPlan) plan)) {
            if (!expression.deterministic()) {
              Set<Object> ordered = orderedFunctionsOf(expression);
              walk(
                  expression,
                  false,
                  node -> addUndetermined((Expression) node, ordered, parts),
                  parts);
            }
            walk(expression, false, node -> addExpression((Expression) node, parts), parts);
          }
        },
        parts);
    return new ArrayList<>(parts);
  }

  /** The functions first and last over windows whose rows have an order: these determine them. */
  private static Set<Object> orderedFunctionsOf(Expression root) {
    Set<Object> functions = Collections.newSetFromMap(new IdentityHashMap<>());
    walk(
        root,
        false,
        node -> {
          if (node instanceof WindowExpression window
              && !window.windowSpec().orderSpec().isEmpty()
              && window.windowFunction() instanceof AggregateExpression aggregate
              && (aggregate.aggregateFunction() instanceof First
                  || aggregate.aggregateFunction() instanceof Last)) {
            functions.add(aggregate.aggregateFunction());
          }
        },
        new LinkedHashSet<>());
    return functions;
  }

  private static void addUndetermined(
      Expression node, Set<Object> ordered, Set<Object> parts) {
    if (node.deterministic() || ordered.contains(node)) {
      return;
    }
    for (TreeNode<?> child : childrenOf(node)) {
      if (!((Expression) child).deterministic()) {
        return;
      }
    }
    parts.add(List.of("undetermined", nameOf(node), node.prettyName()));
  }

  private static void addExpression(Expression node, Set<Object> parts) {
    parts.add(List.of("expression", nameOf(node), node.prettyName()));
    for (TreeNode<?> child : childrenOf(node)) {
      if (child instanceof Cast cast
          && cast.getTagValue(Cast.USER_SPECIFIED_CAST()).isEmpty()
          && cast.child().dataType().typeName().equals("string")) {
        List<Object> conversion = new ArrayList<>();
        conversion.add("conversion");
        conversion.add(nameOf(node));
        conversion.add(cast.dataType().typeName());
        conversion.add(cast.child() instanceof Literal text ? String.valueOf(text.value()) : null);
        conversion.add(node.origin().startIndex().getOrElse(() -> null));
        conversion.add(node.origin().stopIndex().getOrElse(() -> null));
        conversion.add(node.sql());
        parts.add(conversion);
      }
    }
  }

  /**
   * Visits a node and all below it, depth first, but nothing below a view; `withInner`: also the
   * plans of subqueries in expressions.
   */
  private static void walk(
      TreeNode<?> root, boolean withInner, Consumer<TreeNode<?>> visit, Set<Object> parts) {
    Deque<TreeNode<?>> pending = new ArrayDeque<>();
    pending.push(root);
    int count = 0;
    while (!pending.isEmpty()) {
      TreeNode<?> node = pending.pop();
      visit.accept(node);
      count++;
      if (count > MAX_NODES) {
        parts.add(List.of("size", String.valueOf(MAX_NODES)));
        return;
      }
      if (node instanceof View) {
        continue;
      }
      childrenOf(node).forEach(pending::push);
      if (withInner) {
        elementsOf(node.innerChildren()).forEach(pending::push);
      }
    }
  }

  private static List<Expression> expressionsOf(TreeNode<?> plan) {
    List<Expression> expressions = new ArrayList<>();
    for (Object expression : toJava(((LogicalPlan) plan).expressions())) {
      expressions.add((Expression) expression);
    }
    return expressions;
  }

  private static List<TreeNode<?>> childrenOf(TreeNode<?> node) {
    return elementsOf(node.children());
  }

  private static List<TreeNode<?>> elementsOf(Seq<?> nodes) {
    List<TreeNode<?>> elements = new ArrayList<>();
    for (Object node : toJava(nodes)) {
      elements.add((TreeNode<?>) node);
    }
    return elements;
  }

  private static Iterable<?> toJava(Seq<?> sequence) {
    return scala.jdk.javaapi.CollectionConverters.asJava(sequence);
  }

  private static String nameOf(Object node) {
    return node.getClass().getSimpleName();
  }
}
