package org.moirae.filters;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BindReferences;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.package$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** Takes the expressions of filters from the optimized plans of queries. */
final class FilterCompiler {
  private final SparkSession session;

  FilterCompiler(SparkSession session) {
    this.session = session;
  }

  /** Creates a view without rows that the optimizer does not know to have none. */
  void createView(String name, StructType schema) {
    session
        .internalCreateDataFrame(
            session.sparkContext().emptyRDD(ClassTag$.MODULE$.apply(InternalRow.class)),
            schema,
            false)
        .createOrReplaceTempView(name);
  }

  /** The only output of a query, over the columns of its view; null: it is more than that. */
  Expression compile(String query) {
    try {
      LogicalPlan plan = session.sql(query).queryExecution().optimizedPlan();
      if (!(plan instanceof Project project) || !project.child().children().isEmpty()) {
        return null;
      }
      Expression filter = ((Alias) project.projectList().head()).child();
      if (!filter.deterministic() || hasQuery(filter)) {
        return null;
      }
      return bind(filter, project.child().output());
    } catch (Exception error) {
      return null; // the statement that evaluates the filter will report it
    }
  }

  private static Expression bind(Expression filter, Seq<Attribute> columns) {
    return BindReferences.bindReference(
        filter, package$.MODULE$.AttributeSeq(columns), false);
  }

  private static boolean hasQuery(TreeNode<?> node) {
    if (node instanceof PlanExpression) {
      return true;
    }
    for (Object child : scala.jdk.javaapi.CollectionConverters.asJava(node.children())) {
      if (hasQuery((TreeNode<?>) child)) {
        return true;
      }
    }
    return false;
  }
}
