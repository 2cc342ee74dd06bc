package org.moirae.numbers;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A streaming source whose offsets are numbers that this process publishes by {@link Numbers}.
 *
 * <p>Its data frames are empty: who published a number knows what it stands for. Option {@code name}: of the numbers.
 */
public class NumberSource implements TableProvider {
  private static final StructType SCHEMA = new StructType().add("number", DataTypes.LongType);

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new NumberTable();
  }

  private static class NumberTable implements SupportsRead {
    @Override
    public String name() {
      return "numbers";
    }

    @Override
    @SuppressWarnings("deprecation") // Its successor columns() is derived from it.
    public StructType schema() {
      return SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      var name = options.get("name");
      return () -> new NumberScan(name);
    }
  }

  private record NumberScan(String name) implements Scan {
    @Override
    public StructType readSchema() {
      return SCHEMA;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new NumberStream(Numbers.of(name));
    }
  }
}
