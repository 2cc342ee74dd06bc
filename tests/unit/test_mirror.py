"""Each public module has a test: its own unit test, or one that is named here."""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PACKAGES = ("archiver", "moirae", "recall", "sql")

# Modules that act on Spark, PostgreSQL or other processes, modules whose laws are property tests,
# and parts of another unit: the test that covers them. A module with a unit test of its own is not
# listed.
MODULES_BY_TEST = {
    "contract/test_chunk_engines.py": """
        recall.engines.duckdb.engine recall.engines.duckdb.wide_scan recall.engines.spark.engine""",
    "contract/test_context_engines.py": "moirae.evaluation.contexts.portable",
    "contract/test_delta_neighbours.py": "archiver.spark.vacuum moirae.inspect.delta_checks",
    "contract/test_ingest_engines.py": """
        archiver.executors.tasks.blobs archiver.executors.tasks.decode
        archiver.executors.tasks.identities archiver.executors.tasks.write
        archiver.executors.batch_plan archiver.executors.decoded_batch
        archiver.executors.small_batch archiver.executors.task_planner""",
    "contract/test_landmark_windows.py": "recall.query.landmark_windows",
    "contract/test_operator_inputs.py": """
        archiver.formats.text_patterns archiver.formats.time_reading archiver.ingest.record_sample
        archiver.ingest.decoding.csv_framing archiver.ingest.decoding.csv_records
        archiver.ingest.decoding.field_values
        archiver.ingest.decoding.framing archiver.ingest.decoding.joined_lines
        archiver.ingest.decoding.json_records archiver.ingest.decoding.logfmt archiver.ingest.decoding.records
        archiver.ingest.decoding.time_advice archiver.ingest.source_text""",
    "unit/moirae/runtime/storage/test_landing_objects.py": """
        moirae.runtime.storage.landing moirae.runtime.storage.landings""",
    "property/test_backtest_is_live.py": "moirae.backtest.archive",
    "integration/test_fail_over.py": "moirae.runtime.shared_values moirae.cli.cluster",
    "integration/test_backtest_files.py": """
        moirae.backtest.files moirae.backtest.rule_changes moirae.backtest.reports.late_rows moirae.backtest.reports.row_intervals
        moirae.cli.rule_history moirae.rule_tests.stream_files""",
    "integration/test_started_backtests.py": """
        moirae.backtest_process moirae.services.backtest_runs
        moirae.services.operations.backtests moirae.services.operations.drafts
        sql.rules.backtests""",
    "integration/test_tuning.py": "moirae.backtest.tuning.variants",
    "unit/moirae/evaluation/test_necessary_rows.py": "moirae.evaluation.necessary_scan",
    "unit/recall/norms/test_answer.py": "recall.norms.model",
    "unit/moirae/lints/test_lints.py": """
        moirae.lints.notes moirae.lints.plain_expressions moirae.lints.questions moirae.lints.routes""",
    "integration/test_contexts_over_alerts.py": "moirae.live.unsettled_reads sql.recalls.unsettled_reads",
    "integration/test_closed_keys.py": "archiver.ingest.ledger.closed_keys sql.archive.closed_keys",
    "unit/moirae/config/test_streams.py": "moirae.config.changes",
    "unit/moirae/inspect/test_timeline.py": "archiver.read.stream_rows",
    "integration/test_recent_changes.py": """
        moirae.recent_changes.load moirae.topology.load moirae.services.operations.recent_changes""",
    "integration/test_incidents.py": """
        moirae.cli.incidents moirae.config.incidents moirae.incidents.changes
        moirae.incidents.load moirae.live.incidents moirae.services.operations.incidents
        sql.alerts.incidents""",
    "unit/moirae/incidents/test_grouping.py": """
        moirae.incidents.alert_features moirae.incidents.decisions moirae.incidents.describe""",
    "unit/moirae/recent_changes/test_ranking.py": """
        moirae.recent_changes.describe moirae.recent_changes.kinds""",
    "property/test_why_is_live.py": """
        moirae.why.alerts_at moirae.why.evaluation moirae.why.explain moirae.why.explanation""",
    "unit/moirae/live/sources/discovery/test_changed_files.py": "moirae.live.sources.discovery.recorded_versions",
    "unit/moirae/cli/test_backtest_options.py": "moirae.cli.backtest",
    "property/test_formats.py": """
        archiver.ingest.decoding.event_times archiver.ingest.decoding.record_parsers
        archiver.ingest.decoding.text_block_reader archiver.ingest.decoding.text_reader
        archiver.ingest.decoding.text_splitting
        archiver.ingest.decoding.time_texts archiver.ingest.decoding.value_conversion""",
    "unit/moirae/inspect/inference/test_stream_inference.py": """
        moirae.inspect.inference.field_types""",
    "contract/test_shared_computation.py": """
        moirae.evaluation.contexts.evaluator moirae.evaluation.contexts.shared_queries""",
    "contract/test_spark_filters.py": """
        moirae.evaluation.spark_filters recall.engines.spark.row_filters""",
    "contract/test_statement_engines.py": "recall.statements.statement",
    "contract/test_storage.py": """
        archiver.delta.archive_tables archiver.delta.file_checks
        archiver.delta.generation
        archiver.delta.table_version archiver.storage.s3""",
    "compatibility/test_existing_workspaces.py": "moirae.cli.archive",
    "integration/test_erasure.py": """
        moirae.cli.erase moirae.erasure.archive_rows moirae.erasure.archive_tables
        moirae.erasure.choice moirae.erasure.places moirae.erasure.processes moirae.erasure.run
        sql.archive.erased_records sql.archive.erasures sql.workspace.purge""",
    "e2e/test_accounting.py": """
        moirae.inspect.archive_checks moirae.inspect.archived_rows moirae.inspect.doctor moirae.inspect.finding""",
    "e2e/test_up.py": """
        moirae.live.chunk_states moirae.live.end_of_input
        moirae.live.ingest moirae.live.loop moirae.live.run
        moirae.live.sources.idle_sources moirae.live.sources.source
        moirae.live.sources.sources""",
    "integration/test_growing_files.py": """
        moirae.live.sources.growing.content moirae.live.sources.growing.growing_input
        moirae.live.sources.growing.growing_stream moirae.live.sources.growing.known_files
        moirae.live.sources.growing.listing moirae.live.sources.growing.open_files
        moirae.live.sources.growing.ranges
        sql.archive.growing_files""",
    "integration/test_external_alerts.py": """
        moirae.config.external_alerts moirae.deployments.external_rules
        moirae.live.external_alerts moirae.server.routes.protocols moirae.server.routes.remote_write sql.alerts.external_alerts
        sql.archive.skipped_records""",
    "unit/moirae/server/protocols/test_remote_write.py": """moirae.server.protocols.messages
        moirae.server.protocols.pushed_rows moirae.server.protocols.write_messages""",
    "unit/moirae/server/protocols/test_otlp.py": "moirae.server.protocols.otlp_messages",
    "integration/test_norms.py": "moirae.server.routes.exposition moirae.server.routes.norms sql.reports.norms",
    "integration/test_otlp.py": "moirae.server.routes.loki moirae.server.routes.otlp moirae.server.routes.pushed_input",
    "unit/moirae/server/syslog/test_listeners.py": "moirae.server.syslog.batches",
    "integration/test_lost_records.py": "moirae.services.operations.lost_records",
    "integration/test_mcp.py": """
        moirae.cli.mcp moirae.mcp.alerts moirae.mcp.bridge moirae.mcp.server
        moirae.server.routes.mcp""",
    "unit/archiver/ingest/decoding/test_registered_messages.py": "archiver.ingest.schema_registry",
    "integration/test_secured_topics.py": "moirae.live.sources.topics.client_settings",
    "integration/test_topics.py": """
        archiver.ingest.ledger.topics moirae.live.sources.archiving moirae.live.sources.topics.position
        moirae.live.sources.topics.reader moirae.live.sources.topics.readers
        moirae.live.sources.topics.record_reader""",
    "unit/moirae/live/test_lost_input.py": "moirae.alerts.built_in",
    "integration/test_fixes.py": "moirae.cli.tags moirae.services.operations.fixes sql.alerts.tags",
    "integration/test_alert_notes.py": "moirae.alerts.notes moirae.demo.resolutions",
    "integration/test_control_commands.py": "moirae.cli.recalls",
    "integration/test_database.py": """
        moirae.runtime.database moirae.runtime.roles
        moirae.cli.processes""",
    "integration/test_stored_bytes.py": "archiver.delta.stored_bytes moirae.live.stored_bytes sql.archive.stored_bytes",
    "integration/test_derived_archive.py": """
        moirae.history.lock moirae.history.finder moirae.history.engines""",
    "integration/test_evaluation.py": """
        moirae.feedback.workspace
        recall.confidence""",
    "integration/test_indexes.py": "moirae.history.corpus_indexes",
    "integration/test_ingest_command.py": "moirae.live.sources.landing",
    "integration/test_lift.py": "recall.engines.pending_events",
    "integration/test_learned_recalls.py": "recall.learned_models",
    "integration/test_list_commands.py": """
        moirae.alerts.lookup moirae.alerts.store
        moirae.history.plan moirae.history.store""",
    "integration/test_overview.py": "moirae.services.operations.overview sql.reports.overview",
    "integration/test_status_command.py": "moirae.inspect.changed_declarations",
    "integration/test_process_exits.py": "moirae.inspect.state moirae.inspect.unread_input",
    "integration/test_past_events.py": "moirae.history.attempts",
    "unit/moirae/notify/channels/test_apprise_channel.py": "moirae.notify.channels.apprise_process",
    "integration/test_notifications.py": """
        moirae.notify.process.declared
        moirae.notify.process.deliveries moirae.notify.routing.message moirae.notify.process.outbox
        moirae.notify.routing.policy moirae.notify.process.loop moirae.notify.process.run moirae.notify.process.store
        moirae.notify.channels.threads moirae.notify.trial moirae.notify.process.failing_receivers
        moirae.notify.process.heartbeat moirae.inspect.notifications
        moirae.cli.receivers moirae.cli.routes moirae.cli.silence
        moirae.services.operations.notifications moirae.services.operations.silences
        sql.notifications.outbox sql.notifications.silences sql.notifications.state""",
    "integration/test_outbox.py": "moirae.live.outbox",
    "integration/test_backup.py": """
        moirae.backup.creation moirae.backup.postgresql
        moirae.backup.restoration moirae.backup.runs moirae.backup.state
        moirae.backup.verification moirae.backup.workspace_files
        moirae.runtime.storage.generation sql.archive.file_checks sql.workspace.locations
        sql.workspace.snapshots""",
    "integration/test_backup_command.py": "moirae.backup.destination moirae.cli.backup",
    "integration/test_upgrade_command.py": "moirae.cli.upgrade",
    "integration/test_repair.py": """
        archiver.delta.log_repair moirae.repair.backup_files moirae.repair.chunk_catalog
        moirae.repair.database_tables moirae.repair.ledger moirae.repair.ledger_rows
        moirae.repair.repairs moirae.repair.rereading moirae.repair.set_aside
        moirae.repair.step sql.archive.repairs""",
    "integration/test_repair_sources.py": """
        moirae.live.sources.topics.rereading moirae.repair.source_search""",
    "integration/test_recall_answers.py": "recall.worker.preparation",
    "contract/test_case_mappings.py": "moirae.evaluation.index.case_mappings",
    "contract/test_compiled_conditions.py": """
        moirae.evaluation.index.compiled_rules moirae.evaluation.index.conditions
        moirae.evaluation.index.functions
        moirae.evaluation.index.like moirae.evaluation.index.order
        moirae.evaluation.index.regex moirae.evaluation.index.values""",
    "contract/test_sigma_conditions.py": "moirae.sigma.conditions",
    "integration/test_summaries.py": """
        archiver.delta.summary_table moirae.history.summaries recall.summaries.builder
        recall.summaries.nodes sql.archive.summaries""",
    "property/test_summaries.py": """
        recall.summaries.answers recall.summaries.model recall.summaries.statements
        recall.summaries.store""",
    "property/test_rule_index.py": """
        moirae.evaluation.index.anchor_lookup moirae.evaluation.index.index_batch
        moirae.evaluation.index.rule_index""",
    "integration/test_changed_keys.py": "archiver.ingest.changed_lateness sql.archive.lateness",
    "integration/test_changing_streams.py": """
        moirae.live.sources.file_input moirae.live.sources.queries.number_query
        moirae.live.stream_renames moirae.runtime.storage.removed_streams
        sql.archive.stream_renames""",
    "integration/test_hybrid_contexts.py": "moirae.rules.hybrid_contexts",
    "integration/test_query_command.py": """
        moirae.queries.task""",
    "integration/test_recall_manager.py": """
        recall.ledger.tasks recall.worker.manager
        recall.worker.dispatcher recall.worker.run""",
    "integration/test_recall_scheduling.py": "recall.worker.claims",
    "integration/test_refused_rules.py": """
        moirae.deployments.model moirae.deployments.registry
        moirae.deployments.reload moirae.rules.checks.stored_rules""",
    "integration/test_relations.py": """
        moirae.live.relations moirae.live.sources.relation_table sql.archive.source_tables""",
    "integration/test_relation_files.py": """
        moirae.cli.relations moirae.services.operations.relations""",
    "integration/test_relation_declarations.py": "moirae.runtime.relation_declarations",
    "integration/test_repeat.py": "moirae.cli.replay moirae.inspect.repeat",
    "integration/test_retention.py": """
        archiver.ingest.ledger.compaction moirae.live.retention
        moirae.cli.chunks""",
    "integration/test_rule_tests.py": """
        moirae.cli.rule_tests moirae.rule_tests.event_outputs moirae.rule_tests.expectations
        moirae.rule_tests.input_past moirae.rule_tests.notifications moirae.rule_tests.stages
        moirae.rule_tests.results moirae.rule_tests.runner moirae.rule_tests.scratch_archive
        moirae.rule_tests.shared_events""",
    "unit/archiver/delta/test_revision_table.py": "archiver.delta.unpartitioned",
    "unit/moirae/rule_tests/test_input_batches.py": "moirae.rule_tests.inputs",
    "integration/test_rows_ahead.py": "archiver.ingest.unit_registry",
    "integration/test_rules_check.py": """
        moirae.rules.checks.check moirae.rules.checks.check_questions
        moirae.rules.checks.derived_streams
        moirae.rules.checks.event_columns moirae.rules.checks.result_types
        moirae.rules.checks.rule_streams moirae.rules.checks.rule_tables""",
    "integration/test_server.py": """
        sql.pool moirae.server.readiness moirae.server.state_probe
        moirae.server.pool moirae.server.reload moirae.server.run
        moirae.server.routes.watermarks""",
    "integration/test_api.py": """
        moirae.inspect.report moirae.server.routes.metrics
        moirae.server.routes.operations moirae.services.load
        moirae.services.operations.alerts
        moirae.services.operations.events moirae.services.operations.recalls
        moirae.services.operations.system moirae.services.tokens moirae.services.workspace""",
    "integration/test_live_events.py": """
        moirae.server.live.status""",
    "integration/test_remote_commands.py": """
        moirae.cli.rule_report
        moirae.cli.audit moirae.cli.dead_letters moirae.cli.pages moirae.cli.remote moirae.cli.tokens
        moirae.services.operations.exports moirae.services.operations.queries
        moirae.services.operations.similarity""",
    "integration/test_stages.py": """
        recall.ledger.row_revisions recall.stages.evaluation recall.stages.event_evaluation
        recall.stages.event_rows recall.stages.runner recall.stages.store""",
    "integration/test_trimming.py": """
        recall.ledger.revision_reader recall.ledger.trimming sql.recalls.trimming""",
    "integration/test_revision_archive.py": "recall.ledger.revision_archive",
    "integration/test_set_aside_command.py": """
        moirae.cli.set_aside moirae.inspect.set_aside moirae.services.operations.set_aside""",
    "integration/test_signals.py": "sql.processes.signals",
    "integration/test_similar_recalls.py": "recall.worker.comparisons",
    "integration/test_corpus_parts.py": """
        recall.corpus_parts recall.worker.part_comparisons sql.similarity.parts""",
    "integration/test_streams_command.py": "moirae.cli.streams",
    "integration/test_units.py": """
        archiver.ingest.interrupted_batches
        archiver.ingest.engines.batch archiver.ingest.ledger.catalog archiver.ingest.chunk_cutter
        archiver.ingest.engines.local_ingest
        archiver.ingest.engines.ingest_engines archiver.ingest.writer moirae.config.table_schemas""",
    "integration/test_action_links.py": """moirae.notify.inbound.action_links moirae.services.action_links
        moirae.server.routes.action_links sql.notifications.action_links""",
    "integration/test_callbacks.py": """moirae.services.callbacks moirae.server.routes.callbacks
        moirae.notify.inbound.acknowledging""",
    "contract/test_alertmanager_api.py": """
        moirae.notify.present moirae.services.alertmanager moirae.server.routes.alertmanager""",
    "integration/sql/test_gateways.py": """
        sql.access.audit sql.access.idempotency_keys sql.access.sessions sql.access.tokens
        sql.alerts.alert_notes sql.alerts.alerts sql.present_alert
        sql.archive.chunks sql.archive.dead_letters
        sql.archive.derived_chunks sql.archive.relations sql.archive.retention sql.archive.set_aside
        sql.archive.column_rewrites
        sql.archive.streams sql.archive.units sql.archive.unread_input sql.topics.lost_records
        sql.topics.source_errors sql.topics.topics sql.events.contexts sql.events.events sql.events.outbox sql.gateway
        sql.processes.process_exits sql.processes.processes sql.recalls.commands sql.recalls.replay sql.recalls.revisions
        sql.recalls.tasks sql.reports.changes sql.reports.dashboard sql.reports.demo
        sql.reports.lookup sql.rules.deployments sql.rules.rule_errors sql.rules.rule_files
        sql.rules.rules sql.rules.views sql.similarity.calibrations sql.similarity.corpora
        sql.similarity.forecasts
        sql.similarity.judgements sql.similarity.learned_models sql.stages.recalled_events
        sql.stages.row_revisions sql.workspace.backups sql.workspace.identity""",
    "integration/test_migrations.py": "sql.connection sql.errors sql.migrate",
    "property/test_live_is_batch.py": """
        moirae.live.active_rules moirae.live.alert_contexts moirae.live.composition
        moirae.live.detection moirae.live.evaluators moirae.live.event_time
        moirae.live.follow_up""",
    "property/test_alert_lifecycle.py": "moirae.alerts.lifecycle",
    "property/test_columnar_decoder.py": """
        archiver.ingest.decoding.csv_reader archiver.ingest.decoding.block_decoder
        archiver.ingest.decoding.json_reader archiver.ingest.decoding.column_values""",
    "property/test_chunk_order.py": "recall.scheduling.chunk_order",
    "property/test_forecast.py": "recall.scheduling.forecast",
    "property/test_identity_index.py": "archiver.delta.identity",
    "property/test_partial_cache.py": "recall.engines.routing.partial_cache",
    "property/test_past_is_live.py": "moirae.history.builder moirae.history.versions",
    "property/test_present_rows.py": "archiver.read.present_rows archiver.read.row_batch",
    "property/test_rule_fuzz.py": """
        recall.sandbox.plan_parts recall.sandbox.time_limit
        recall.sandbox.validation""",
    "property/test_sequenced_table.py": "archiver.delta.sequenced_table",
    "property/test_similarity_numeric.py": "recall.similarity.numeric",
    "property/test_split_answers.py": "recall.engines.duckdb.portable recall.query.parts",
    "property/test_stride_scheduling.py": "recall.scheduling.stride",
    "property/test_similarity_index.py": "recall.similarity.comparison",
    "integration/test_order_preferences.py": "recall.worker.piece_ranking",
    "property/test_time_travel.py": "archiver.read.time_travel",
    "unit/archiver/spark/test_install.py": "archiver.spark.warm_up",
    "unit/moirae/config/test_settings.py": """
        moirae.config.archive moirae.config.limits moirae.config.networks moirae.config.server
        moirae.config.notifications moirae.config.receivers
        moirae.documents.types moirae.documents.validation""",
    "unit/moirae/demo/test_testbed.py": """
        moirae.demo.failures moirae.demo.running_processes moirae.demo.sampling""",
    "unit/moirae/evaluation/test_duckdb_rules.py": "moirae.evaluation.limited_joins",
    "unit/moirae/evaluation/test_evaluator.py": "moirae.evaluation.spark_rules",
    "integration/sql/test_lost_verdict_gateway.py": "sql.rules.lost_verdicts",
    "integration/sql/test_rule_candidate_gateway.py": "sql.rules.rule_candidates",
    "integration/sql/test_flow_gateway.py": "sql.reports.flows",
    "browser/test_network.py": "moirae.services.operations.network",
    "unit/recall/query/test_lift.py": "recall.query.sql_names",
    "unit/recall/learning/test_tag_model.py": "recall.learning.kernel",
    "unit/recall/learning/test_build.py": """
        recall.learning.learner recall.learning.learned_model""",
    "unit/recall/similarity/segments/test_segment.py": "recall.similarity.segments.segment_merge",
    "unit/sql/test_sql.py": "sql.loader",
    "unit/test_errors.py": "archiver.errors recall.errors",
}


@cache
def public_modules() -> dict[str, Path]:
    """Paths of modules with functions or classes by dotted name; not front doors and programs."""
    modules = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            tree = ast.parse(path.read_text())
            is_public = not path.stem.startswith("_")
            if is_public and any(isinstance(node, definitions) for node in tree.body):
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                modules[name] = path.relative_to(ROOT)
    return modules


def has_unit_test(path: Path) -> bool:
    """Whether a module, or the nested folder that it is in, has a unit test of its name."""
    folder = TESTS / "unit" / path.parent
    is_nested = len(path.parts) > 3
    return (folder / f"test_{path.stem}.py").exists() or (
        is_nested and (folder.parent / f"test_{folder.name}.py").exists()
    )


def modules_in_table() -> list[str]:
    return [name for names in MODULES_BY_TEST.values() for name in names.split()]


def test_each_public_module_has_a_test() -> None:
    listed = set(modules_in_table())
    untested = [
        name
        for name, path in public_modules().items()
        if name not in listed and not has_unit_test(path)
    ]
    assert untested == [], "write a unit test for each, or name the test that covers it"


def test_table_lists_existing_modules_without_unit_test_once() -> None:
    modules = public_modules()
    listed = modules_in_table()
    assert [name for name in listed if name not in modules] == [], "no such module"
    assert [name for name in listed if has_unit_test(modules[name])] == [], "has a unit test"
    assert [name for name in listed if listed.count(name) > 1] == [], "listed twice"


def test_table_lists_existing_tests() -> None:
    assert [path for path in MODULES_BY_TEST if not (TESTS / path).exists()] == []


def test_unit_tests_lie_in_the_folder_of_their_module() -> None:
    misplaced = []
    for path in sorted((TESTS / "unit").glob("*/**/test_*.py")):
        relative = path.relative_to(TESTS / "unit")
        subject = ROOT / relative.parent / path.stem.removeprefix("test_")
        candidates = (
            subject.with_suffix(".py"),
            subject,  # a folder, through its front door
            subject.with_name(f"__{subject.name}__.py"),
        )
        is_package_test = subject.parent == ROOT / subject.name
        if not is_package_test and not any(candidate.exists() for candidate in candidates):
            misplaced.append(str(relative))
    assert misplaced == []
