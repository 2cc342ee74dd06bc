"""What Spark is started with in a process of a workspace."""

from collections.abc import Mapping
from typing import Literal

from moirae.config.settings import Settings
from moirae.errors import MoiraeError

_SECRET = "spark.authenticate.secret"
SparkProcess = Literal["live", "recall"]

# On a cluster, rows and commands pass over the network and over disks of other machines.
_PROTECTION = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
_SECRET_FILE = "spark.authenticate.secret.file"


def build_spark_settings(settings: Settings, process: SparkProcess) -> Mapping[str, str]:
    """`spark.conf`, and on a cluster the cores of a process and what protects its connections.

    Raises `MoiraeError` if the workspace does not protect the connections of a cluster, or sets the
    cores twice.
    """
    spark = settings.spark
    conf = {name: str(value) for name, value in spark.conf.items()}
    if not spark.is_cluster:
        return conf
    _check_protection(settings, conf)
    if spark.secret is not None:
        conf[_SECRET] = spark.secret.get_secret_value()
    if spark.cores is not None:
        cores = spark.cores.live if process == "live" else spark.cores.recall
        core_settings = _build_core_settings(spark.master, conf, cores)
        for name in core_settings.keys() & conf.keys():
            raise MoiraeError(
                f"{settings.file}: spark.conf: {name} and spark.cores are both set: remove one"
            )
        conf |= core_settings
    return {**conf, **_PROTECTION}


def _check_protection(settings: Settings, conf: Mapping[str, str]) -> None:
    spark = settings.spark
    for name in _PROTECTION:
        if conf.get(name, "true").lower() != "true":
            raise MoiraeError(
                f"{settings.file}: spark.conf: {name} must not be off with the master "
                f"{spark.master}: remove the setting"
            )
    if _SECRET in conf:
        raise MoiraeError(
            f"{settings.file}: spark.conf: {_SECRET}: use the key spark.secret, which other "
            "users of this machine do not see"
        )
    # YARN and Kubernetes give each application a secret of its own.
    is_standalone = spark.master.startswith("spark://")
    if is_standalone and spark.secret is None and _SECRET_FILE not in conf:
        raise MoiraeError(
            f"{settings.file}: spark: a secret is required with the master {spark.master}: without "
            'it, anybody who reaches the cluster can run code there. Add secret: "${MOIRAE_SPARK_'
            'SECRET}" to spark, set the variable, and start master and workers with '
            "spark.authenticate=true, spark.network.crypto.enabled=true and the same "
            f"{_SECRET}"
        )


def _build_core_settings(master: str, conf: Mapping[str, str], cores: int) -> dict[str, str]:
    if master.startswith("spark://"):
        return {"spark.cores.max": str(cores)}
    executor_cores = int(conf.get("spark.executor.cores", "1"))
    executors = str(max(1, cores // executor_cores))
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return {"spark.dynamicAllocation.maxExecutors": executors}
    return {"spark.executor.instances": executors}
