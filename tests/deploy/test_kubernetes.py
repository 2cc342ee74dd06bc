"""The Kubernetes manifests, by the schemas of the API and by what refers to what."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from moirae.config.settings import load_settings
from tests.deploy import DEPLOY, read_yaml

FOLDER = DEPLOY / "kubernetes"
KUSTOMIZATION = read_yaml(FOLDER / "kustomization.yaml")
WORKSPACE = DEPLOY / "workspace"
MANIFESTS = [name for name in KUSTOMIZATION["resources"] if name.endswith(".yaml")]
VERSIONS = ("1.30", "1.37")  # the oldest and the newest that is supported


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [*MANIFESTS, "secret.example.yaml"])
def test_manifest_follows_the_schema(name: str, version: str) -> None:
    kubernetes_validate.validate(read_yaml(FOLDER / name), version, strict=True)


def test_schema_refuses_an_unknown_field() -> None:
    manifest = read_yaml(FOLDER / "recall.yaml")
    manifest["spec"]["template"]["spec"]["container"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)


def test_all_manifests_are_listed() -> None:
    present = {path.name for path in FOLDER.glob("*.yaml")}
    assert present == {*MANIFESTS, "kustomization.yaml", "secret.example.yaml"}


def _pods() -> list[tuple[str, dict[str, Any]]]:
    pods = []
    for name in MANIFESTS:
        manifest = read_yaml(FOLDER / name)
        if "template" in manifest.get("spec", {}):
            pods.append((name, manifest["spec"]))
    return pods


@pytest.mark.parametrize(("name", "spec"), _pods())
def test_pods_meet_the_restricted_security_standard(name: str, spec: dict[str, Any]) -> None:
    pod = spec["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize(("name", "spec"), _pods())
def test_pods_refer_to_what_exists(name: str, spec: dict[str, Any]) -> None:
    pod = spec["template"]["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    volumes = {volume["name"] for volume in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
    used = {mount["name"] for c in pod["containers"] for mount in c["volumeMounts"]}
    assert used == volumes
    image = (DEPLOY / "container" / "Containerfile").read_text()
    assert f"USER {pod['securityContext']['runAsUser']}:" in image
    assert {c["image"] for c in pod["containers"]} == {i["name"] for i in KUSTOMIZATION["images"]}
    maps = {m["name"] for m in read_yaml(WORKSPACE / "kustomization.yaml")["configMapGenerator"]}
    (projected,) = [v["projected"] for v in pod["volumes"] if "projected" in v]
    assert {source["configMap"]["name"] for source in projected["sources"]} == maps


def test_mounted_workspace_is_that_of_the_repository(tmp_path: Path) -> None:
    """Lay out the files as the pods mount them, and load the workspace from there."""
    maps = {
        entry["name"]: {Path(file).name: WORKSPACE / file for file in entry["files"]}
        for entry in read_yaml(WORKSPACE / "kustomization.yaml")["configMapGenerator"]
    }
    for _, spec in _pods():
        (projected,) = [
            v["projected"] for v in spec["template"]["spec"]["volumes"] if "projected" in v
        ]
        for source in projected["sources"]:
            files = maps[source["configMap"]["name"]]
            items = source["configMap"].get("items") or [{"key": k, "path": k} for k in files]
            for item in items:
                target = tmp_path / item["path"]
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(files[item["key"]].read_bytes())
    secret = read_yaml(FOLDER / "secret.example.yaml")["stringData"]
    environment = {**secret, "MOIRAE_KAFKA": "kafka:9092"}
    settings = load_settings(tmp_path / "moirae.yaml", environment)
    mounted = [path.relative_to(tmp_path) for path in settings.find_rule_files()]
    assert mounted == [path.relative_to(WORKSPACE) for path in sorted(WORKSPACE.glob("rules/*"))]
    mounts = {
        m["mountPath"]
        for _, s in _pods()
        for c in s["template"]["spec"]["containers"]
        for m in c["volumeMounts"]
    }
    assert mounts == {"/etc/moirae", str(settings.home), "/tmp"}


def test_service_reaches_the_server() -> None:
    service = read_yaml(FOLDER / "service.yaml")
    live = read_yaml(FOLDER / "live.yaml")
    labels = live["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    ports = [
        p["name"]
        for c in live["spec"]["template"]["spec"]["containers"]
        for p in c.get("ports", [])
    ]
    assert ports == [service["spec"]["ports"][0]["targetPort"]]
    assert live["spec"]["serviceName"] == service["metadata"]["name"]


@pytest.mark.skipif(shutil.which("kustomize") is None, reason="kustomize is not installed")
def test_kustomize_builds_valid_manifests_that_refer_to_its_config_maps() -> None:
    """As `kubectl apply -k` does."""
    output = subprocess.run(
        ["kustomize", "build", str(FOLDER)], capture_output=True, text=True, check=True
    ).stdout
    manifests = list(YAML(typ="safe").load_all(output))
    for manifest in manifests:
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)
    maps = {m["metadata"]["name"]: m["data"] for m in manifests if m["kind"] == "ConfigMap"}
    names = [name for name in maps if name.startswith("moirae-config-")]
    assert len(names) == 1
    assert set(maps) == {*names, "moirae-rules"}
    assert maps[names[0]]["moirae.yaml"] == (WORKSPACE / "moirae.yaml").read_text()
    pods = [
        m["spec"]["template"]["spec"]
        for m in manifests
        if m["kind"] in ("StatefulSet", "Deployment")
    ]
    assert len(pods) == 2
    for pod in pods:
        (projected,) = [v["projected"] for v in pod["volumes"] if "projected" in v]
        assert {source["configMap"]["name"] for source in projected["sources"]} == set(maps)
        assert {container["image"] for container in pod["containers"]} == {"moirae:0.2.0"}
