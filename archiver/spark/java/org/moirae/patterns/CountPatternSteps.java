package org.moirae.patterns;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ILike;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.LikeAllBase;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MultiLikeBase;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.ParseUrl;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.expressions.RegExpCount;
import org.apache.spark.sql.catalyst.expressions.RegExpExtract;
import org.apache.spark.sql.catalyst.expressions.RegExpExtractAll;
import org.apache.spark.sql.catalyst.expressions.RegExpInStr;
import org.apache.spark.sql.catalyst.expressions.RegExpReplace;
import org.apache.spark.sql.catalyst.expressions.RegExpSubStr;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.StringSplit;
import org.apache.spark.sql.catalyst.expressions.StringToMap;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.CollationFactory;
import org.apache.spark.sql.catalyst.util.CollationSupport;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
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
  private static final int MAX_FAST_WILDCARDS = 2; // `%` of a pattern that Spark evaluates fast
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
    } else if (expression instanceof MultiLikeBase match) {
      return rewriteLikes(match);
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
    } else if (expression instanceof StringToMap map && hasPatterns(map.text().dataType())) {
      return count("toMap", map, map.text(), map.pairDelim(), map.keyValueDelim());
    } else if (expression instanceof ParseUrl parse && parse.children().size() > 2) {
      return rewriteParseUrl(parse);
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
    if (pattern != null && isFast(pattern)) {
      return null;
    }
    PatternForm form = PatternForm.like(match.escapeChar());
    return count("isLike", form, match, match.left(), match.right());
  }

  /** Delimiters of `str_to_map` are plain texts where the text has a collation. */
  private static boolean hasPatterns(DataType type) {
    return type instanceof StringType text
        && CollationFactory.fetchCollation(text.collationId()).isUtf8BinaryType;
  }

  private static boolean isFast(String pattern) {
    return pattern.chars().filter(character -> character == '%').count() <= MAX_FAST_WILDCARDS;
  }

  /** LIKE ANY and LIKE ALL: each pattern alone, if any of them is to be counted. */
  private static Expression rewriteLikes(MultiLikeBase match) {
    List<UTF8String> patterns = CollectionConverters.asJava(match.patterns());
    if (patterns.stream().allMatch(pattern -> pattern == null || isFast(pattern.toString()))) {
      return null;
    }
    Expression text = match.child();
    List<Expression> likes = new ArrayList<>();
    for (UTF8String pattern : patterns) {
      Like like = new Like(text, new Literal(pattern, text.dataType()), '\\');
      Expression counted = pattern == null ? null : rewriteLike(like);
      Expression condition = counted == null ? like : counted;
      likes.add(match.isNotSpecified() ? new Not(condition) : condition);
    }
    return combine(likes, match instanceof LikeAllBase);
  }

  /** A balanced tree: Spark walks expressions by recursion, and patterns may be thousands. */
  private static Expression combine(List<Expression> conditions, boolean isAnd) {
    if (conditions.size() == 1) {
      return conditions.get(0);
    }
    int middle = conditions.size() / 2;
    Expression left = combine(conditions.subList(0, middle), isAnd);
    Expression right = combine(conditions.subList(middle, conditions.size()), isAnd);
    return isAnd ? new And(left, right) : new Or(left, right);
  }

  /** `parse_url` with a key, which is a part of a regular expression. */
  private static Expression rewriteParseUrl(ParseUrl parse) {
    List<Expression> arguments = new ArrayList<>();
    arguments.addAll(CollectionConverters.asJava(parse.children()));
    arguments.add(Literal.create(parse.failOnError(), DataTypes.BooleanType));
    CountedPattern pattern = new CountedPattern(PatternForm.QUERY_KEY, 0);
    return invoke(pattern, "queryValue", parse.dataType(), arguments);
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
    CountedPattern pattern = new CountedPattern(form, flags);
    return invoke(pattern, method, replaced.dataType(), List.of(arguments));
  }

  private static Expression invoke(
      CountedPattern pattern, String method, DataType result, List<Expression> arguments) {
    Literal target = new Literal(pattern, new ObjectType(CountedPattern.class));
    List<AbstractDataType> types =
        arguments.stream().map(argument -> (AbstractDataType) argument.dataType()).toList();
    boolean mayBeNull = method.equals("queryValue");
    return new Invoke(
        target, method, result, toScala(arguments), toScala(types), true, mayBeNull, true);
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
