package org.moirae.numbers;

import java.util.concurrent.ConcurrentHashMap;

/** The newest number that was published under a name; numbers of a name only grow. */
public class Numbers {
  private static final ConcurrentHashMap<String, Numbers> BY_NAME = new ConcurrentHashMap<>();

  private long newest;

  static Numbers of(String name) {
    return BY_NAME.computeIfAbsent(name, unused -> new Numbers());
  }

  /** Publishes a number, and with it all lower ones. */
  public static void publish(String name, long number) {
    of(name).raise(number);
  }

  /** Forgets a name. */
  public static void remove(String name) {
    BY_NAME.remove(name);
  }

  private synchronized void raise(long number) {
    newest = Math.max(newest, number);
    notifyAll();
  }

  /** Waits until a number after {@code number} is published; returns the newest. */
  synchronized long await(long number) throws InterruptedException {
    while (newest <= number) {
      wait();
    }
    return newest;
  }
}
