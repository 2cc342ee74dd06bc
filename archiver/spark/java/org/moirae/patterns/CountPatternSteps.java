package org.moirae.patterns;

import java.util.List;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.expressions.RegExpExtract;
import org.apache.spark.sql.catalyst.expressions.RegExpReplace;
import org.apache.spark.sql.catalyst.expressions.StringSplit;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.PartialFunction;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Evaluates functions with a constant regular expression by {@link CountedPattern}.
 *
 * <p>It runs on analysed plans, before the optimizer evaluates constants. Queries are validated
 * before that, and {@link CountedPattern} has no name by which a query could call it.
 */
final class CountPatternSteps extends Rule<LogicalPlan> {
  private static final PartialFunction<Expression, Expression> REWRITE =
      new AbstractPartialFunction<>() {
        @Override
        public boolean isDefinedAt(Expression expression) {
          return rewrite(expression) != null;
        }

        @Override
        @SuppressWarnings("unchecked")
        public <A extends Expression, B> B applyOrElse(
            A expression, scala.Function1<A, B> otherwise) {
          Expression rewritten = rewrite(expression);
          return rewritten == null ? otherwise.apply(expression) : (B) rewritten;
        }
      };

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan) plan.transformAllExpressions(REWRITE);
  }

  /** The expression that counts steps; null: it stays as it is. */
  private static Expression rewrite(Expression expression) {
    try {
      if (expression instanceof RLike match) {
        String regex = constantOf(match.right());
        if (regex != null && isPlain(match.left())) {
          CountedPattern pattern = CountedPattern.forSearch(regex);
          return invoke(pattern, "isFound", match, List.of(match.left()));
        }
      } else if (expression instanceof RegExpExtract extract) {
        String regex = constantOf(extract.regexp());
        if (regex != null && isPlain(extract.subject())) {
          CountedPattern pattern = CountedPattern.of(regex);
          if (hasGroup(pattern, extract.idx())) {
            return invoke(pattern, "extract", extract, List.of(extract.subject(), extract.idx()));
          }
        }
      } else if (expression instanceof RegExpReplace replace) {
        String regex = constantOf(replace.regexp());
        if (regex != null && isPlain(replace.subject()) && isPlain(replace.rep())) {
          if (replace.pos() instanceof Literal start && Integer.valueOf(1).equals(start.value())) {
            CountedPattern pattern = CountedPattern.of(regex);
            return invoke(pattern, "replace", replace, List.of(replace.subject(), replace.rep()));
          }
        }
      } else if (expression instanceof StringSplit split) {
        String regex = constantOf(split.regex());
        if (regex != null && !regex.isEmpty() && isPlain(split.str())) {
          CountedPattern pattern = CountedPattern.of(regex);
          return invoke(pattern, "split", split, List.of(split.str(), split.limit()));
        }
      }
    } catch (PatternSyntaxException error) {
      return null; // Spark reports it
    }
    return null;
  }

  private static boolean hasGroup(CountedPattern pattern, Expression group) {
    if (group instanceof Literal literal && literal.value() instanceof Integer number) {
      return number >= 0 && number <= pattern.groupCount();
    }
    return false;
  }

  /** The text of an expression without columns; null: it has columns, or is no text. */
  private static String constantOf(Expression expression) {
    if (!isPlain(expression) || !expression.foldable()) {
      return null;
    }
    try {
      return expression.eval(null) instanceof UTF8String text ? text.toString() : null;
    } catch (RuntimeException error) {
      return null; // Spark reports it
    }
  }

  /** Whether an expression is text that is compared by code points. */
  private static boolean isPlain(Expression expression) {
    return expression.dataType().equals(DataTypes.StringType);
  }

  private static Expression invoke(
      CountedPattern pattern, String method, Expression replaced, List<Expression> arguments) {
    Literal target = new Literal(pattern, new ObjectType(CountedPattern.class));
    DataType type = replaced.dataType();
    List<AbstractDataType> inputTypes =
        arguments.stream().map(argument -> (AbstractDataType) argument.dataType()).toList();
    return new Invoke(
        target, method, type, toScala(arguments), toScala(inputTypes), true, false, true);
  }

  private static <T> Seq<T> toScala(List<T> values) {
    return CollectionConverters.asScala(values).toSeq();
  }
}
