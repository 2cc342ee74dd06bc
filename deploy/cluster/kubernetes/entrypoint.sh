#!/bin/sh
# What Spark and its operator start in pods: `driver` for a process of the workspace, `executor` for
# its executors. Everything else is a command of Moirae.
set -e
case "${1:-}" in
driver)
  # --properties-file FILE --class CLASS MAIN ARGUMENTS…: the process starts Spark by itself, with
  # the properties that the operator has written.
  shift
  while [ "$#" -gt 0 ]; do
    case "$1" in
    --properties-file)
      export MOIRAE_SPARK_PROPERTIES="$2"
      shift 2 ;;
    --*) shift 2 ;;
    *) break ;;
    esac
  done
  shift                              # the main file
  exec moirae "$@"
  ;;
executor)
  SPARK_HOME=$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
  export SPARK_HOME
  # shellcheck disable=SC2046 # each variable is one option
  exec java $(env | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p') \
    -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" -cp "$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
  ;;
*)
  exec moirae "$@"
  ;;
esac
