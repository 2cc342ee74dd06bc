package org.moirae.numbers;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** The micro-batches of {@link NumberSource}: each extends to the newest number that is published. */
class NumberStream implements MicroBatchStream {
  private final Numbers numbers;
  /** The number that was returned last; numbers of earlier processes are lower than all of this one. */
  private long end;

  NumberStream(Numbers numbers) {
    this.numbers = numbers;
  }

  @Override
  public Offset initialOffset() {
    return new Number(0);
  }

  /** Waits for a number after the last batch: a query without input costs nothing. */
  @Override
  public Offset latestOffset() {
    try {
      end = numbers.await(end);
    } catch (InterruptedException stopped) {
      // Spark stops a query by an interrupt, which it looks for when this returns.
      Thread.currentThread().interrupt();
    }
    return new Number(end);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new Number(Long.parseLong(json));
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return new InputPartition[0];
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return partition -> {
      throw new UnsupportedOperationException("there are no partitions");
    };
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {}

  private static class Number extends Offset {
    private final long value;

    Number(long value) {
      this.value = value;
    }

    @Override
    public String json() {
      return Long.toString(value);
    }
  }
}
