package org.moirae.patterns;

import java.util.List;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ILike;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.expressions.RegExpCount;
import org.apache.spark.sql.catalyst.expressions.RegExpExtract;
import org.apache.spark.sql.catalyst.expressions.RegExpExtractAll;
import org.apache.spark.sql.catalyst.expressions.RegExpInStr;
import org.apache.spark.sql.catalyst.expressions.RegExpReplace;
import org.apache.spark.sql.catalyst.expressions.RegExpSubStr;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.StringSplit;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.CollationSupport;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.PartialFunction;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Evaluates functions with a regular expression by {@link CountedPattern}.
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
    if (expression instanceof RLike match) {
      return count("isFound", PatternForm.SEARCH, match, match.left(), match.right());
    } else if (expression instanceof Like match) {
      return rewriteLike(match);
    } else if (expression instanceof RegExpExtract extract) {
      return count("extract", extract, extract.subject(), extract.regexp(), extract.idx());
    } else if (expression instanceof RegExpExtractAll extract) {
      return count("extractAll", extract, extract.subject(), extract.regexp(), extract.idx());
    } else if (expression instanceof RegExpInStr find) {
      return count("position", find, find.subject(), find.regexp(), find.idx());
    } else if (expression instanceof RegExpReplace replace) {
      Expression replacement = replace.rep();
      return count(
          "replace", replace, replace.subject(), replace.regexp(), replacement, replace.pos());
    } else if (expression instanceof StringSplit split) {
      return count("split", split, split.str(), split.regex(), split.limit());
    } else if (expression instanceof RegExpCount
        || expression instanceof RegExpSubStr
        || expression instanceof ILike) {
      Expression replacement = ((RuntimeReplaceable) expression).replacement();
      return (Expression) replacement.transform(REWRITE);
    }
    return null;
  }

  /** Spark has faster functions for constant patterns with one or two `%`. */
  private static Expression rewriteLike(Like match) {
    String pattern = constantOf(match.right());
    if (pattern != null && pattern.chars().filter(character -> character == '%').count() <= 2) {
      return null;
    }
    PatternForm form = PatternForm.like(match.escapeChar());
    return count("isLike", form, match, match.left(), match.right());
  }

  private static Expression count(String method, Expression replaced, Expression... arguments) {
    return count(method, PatternForm.REGEX, replaced, arguments);
  }

  /** `arguments`: the text, the pattern, and others. */
  private static Expression count(
      String method, PatternForm form, Expression replaced, Expression... arguments) {
    if (!(arguments[0].dataType() instanceof StringType text)) {
      return null;
    }
    if (form.isRegex() && isInvalid(constantOf(arguments[1]))) {
      return null; // Spark reports it, also where there are no rows
    }
    int flags = CollationSupport.collationAwareRegexFlags(text.collationId());
    Literal target =
        new Literal(new CountedPattern(form, flags), new ObjectType(CountedPattern.class));
    List<Expression> values = List.of(arguments);
    List<AbstractDataType> types =
        values.stream().map(argument -> (AbstractDataType) argument.dataType()).toList();
    return new Invoke(
        target, method, replaced.dataType(), toScala(values), toScala(types), true, false, true);
  }

  private static boolean isInvalid(String regex) {
    try {
      if (regex != null) {
        Pattern.compile(regex);
      }
      return false;
    } catch (PatternSyntaxException error) {
      return true;
    }
  }

  /** The text of an expression without columns; null: it has columns, or is no text. */
  private static String constantOf(Expression expression) {
    if (!expression.foldable()) {
      return null;
    }
    try {
      return expression.eval(null) instanceof UTF8String text ? text.toString() : null;
    } catch (RuntimeException error) {
      return null; // it is reported when it is evaluated, or cannot be before it is optimized
    }
  }

  private static <T> Seq<T> toScala(List<T> values) {
    return CollectionConverters.asScala(values).toSeq();
  }
}
