-- SPDX-License-Identifier: MIT
-- The tables of a recording (doc/tables.md, doc/columns.md), each with where a row comes from: host, boot_id, batch (a table's
-- segment), row (in it), and time (seconds of UTC) by which days are partitions. What was not measured is NULL; of a text, ''.
-- A statement ends with a line that ends with a semicolon. ReplacingMergeTree: should a row ever be there twice, both have the
-- same key, and become one.

CREATE TABLE IF NOT EXISTS schema_versions (
  version UInt32,
  applied DateTime('UTC')
) ENGINE = MergeTree ORDER BY version;

-- What became of each batch: shipped, damaged (all that could be read), refused (a row has no place in its table; "rows" of those before it are there), removed
-- (by the recording's ring, while a shipper waited for the server) or given up (it waited for too long).
CREATE TABLE IF NOT EXISTS batches (
  host String,
  batch UInt64,
  boot_id String,
  segment UInt64,
  table_name String,
  start DateTime('UTC'),
  start_unix_ns Int64,
  end_unix_ns Int64,
  rows UInt64,
  bytes UInt64,
  state String,
  version String
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(start) ORDER BY (host, start, batch);

-- A process in a millisecond.
CREATE TABLE IF NOT EXISTS slots (
  host String, boot_id String, batch UInt64, row UInt32, time DateTime('UTC'),
  slot_start_ns UInt64, slot_start_unix_ns Int64, tgid Nullable(Int32), start_time_ns Nullable(UInt64), comm String,
  rmid Nullable(UInt32), kind String, cpu_ns UInt64, wait_ns Nullable(UInt64), switches Nullable(UInt32),
  preemptions Nullable(UInt32), cycles Nullable(UInt64), instructions Nullable(UInt64), llc_misses Nullable(UInt64),
  mux_pct Nullable(Float64), mbm_total_bytes Nullable(UInt64), mbm_local_bytes Nullable(UInt64),
  llc_occupancy_bytes Nullable(UInt64), rdt_status String, gpu_mem_bytes Nullable(UInt64),
  gpu_active_ns Nullable(UInt64), gpu_launches Nullable(UInt64), straggle Nullable(UInt8),
  throughput_drop_pct Nullable(Float64), slot_ns UInt64, wait_earlier_ns Nullable(UInt64),
  wait_others_ns Nullable(UInt64), wait_self_ns Nullable(UInt64), wait_throttled_ns Nullable(UInt64),
  wait_wakeup_ns Nullable(UInt64), wait_steal_ns Nullable(UInt64), wait_unknown_ns Nullable(UInt64),
  ran_instead_tgid Nullable(Int32), ran_instead_start_ns Nullable(UInt64), ran_instead_ns Nullable(UInt64),
  state String, state_since_ns Nullable(UInt64), cpus Nullable(UInt32), main_cpu Nullable(UInt32),
  migrations Nullable(UInt32), gpu_no_work_ns Nullable(UInt64), gpu_no_work_ran_ns Nullable(UInt64),
  gpu_no_work_in_calls_ns Nullable(UInt64), gpu_no_work_waited_ns Nullable(UInt64),
  gpu_no_work_throttled_ns Nullable(UInt64), gpu_no_work_cuda_wait_ns Nullable(UInt64),
  gpu_no_work_disk_ns Nullable(UInt64), gpu_no_work_stopped_ns Nullable(UInt64), gpu_no_work_asleep_ns Nullable(UInt64),
  gpu_no_work_unknown_ns Nullable(UInt64), gpu_launcher_ran_ns Nullable(UInt64),
  gpu_launcher_in_calls_ns Nullable(UInt64), llc_references Nullable(UInt64), llc_references_mux_pct Nullable(Float64),
  branches Nullable(UInt64), branches_mux_pct Nullable(Float64), branch_misses Nullable(UInt64),
  branch_misses_mux_pct Nullable(Float64), dtlb_misses Nullable(UInt64), dtlb_misses_mux_pct Nullable(Float64),
  ref_cycles Nullable(UInt64), ref_cycles_mux_pct Nullable(Float64)
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(time) ORDER BY (host, time, batch, row);

-- The same, added up over a second.
CREATE TABLE IF NOT EXISTS seconds (
  host String, boot_id String, batch UInt64, row UInt32, time DateTime('UTC'),
  slot_start_ns UInt64, slot_start_unix_ns Int64, tgid Nullable(Int32), start_time_ns Nullable(UInt64), comm String,
  rmid Nullable(UInt32), kind String, cpu_ns UInt64, wait_ns Nullable(UInt64), switches Nullable(UInt32),
  preemptions Nullable(UInt32), cycles Nullable(UInt64), instructions Nullable(UInt64), llc_misses Nullable(UInt64),
  mux_pct Nullable(Float64), mbm_total_bytes Nullable(UInt64), mbm_local_bytes Nullable(UInt64),
  llc_occupancy_bytes Nullable(UInt64), rdt_status String, gpu_mem_bytes Nullable(UInt64),
  gpu_active_ns Nullable(UInt64), gpu_launches Nullable(UInt64), straggle Nullable(UInt8),
  throughput_drop_pct Nullable(Float64), slot_ns UInt64, wait_earlier_ns Nullable(UInt64),
  wait_others_ns Nullable(UInt64), wait_self_ns Nullable(UInt64), wait_throttled_ns Nullable(UInt64),
  wait_wakeup_ns Nullable(UInt64), wait_steal_ns Nullable(UInt64), wait_unknown_ns Nullable(UInt64),
  ran_instead_tgid Nullable(Int32), ran_instead_start_ns Nullable(UInt64), ran_instead_ns Nullable(UInt64),
  state String, state_since_ns Nullable(UInt64), cpus Nullable(UInt32), main_cpu Nullable(UInt32),
  migrations Nullable(UInt32), gpu_no_work_ns Nullable(UInt64), gpu_no_work_ran_ns Nullable(UInt64),
  gpu_no_work_in_calls_ns Nullable(UInt64), gpu_no_work_waited_ns Nullable(UInt64),
  gpu_no_work_throttled_ns Nullable(UInt64), gpu_no_work_cuda_wait_ns Nullable(UInt64),
  gpu_no_work_disk_ns Nullable(UInt64), gpu_no_work_stopped_ns Nullable(UInt64), gpu_no_work_asleep_ns Nullable(UInt64),
  gpu_no_work_unknown_ns Nullable(UInt64), gpu_launcher_ran_ns Nullable(UInt64),
  gpu_launcher_in_calls_ns Nullable(UInt64), llc_references Nullable(UInt64), llc_references_mux_pct Nullable(Float64),
  branches Nullable(UInt64), branches_mux_pct Nullable(Float64), branch_misses Nullable(UInt64),
  branch_misses_mux_pct Nullable(Float64), dtlb_misses Nullable(UInt64), dtlb_misses_mux_pct Nullable(Float64),
  ref_cycles Nullable(UInt64), ref_cycles_mux_pct Nullable(Float64), slots UInt32, worst_cpu_ns Nullable(UInt64),
  worst_cpu_slot_ns Nullable(UInt64), worst_wait_ns Nullable(UInt64), worst_wait_slot_ns Nullable(UInt64)
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(time) ORDER BY (host, time, batch, row);

-- Why processes waited for a CPU, and who ran meanwhile.
CREATE TABLE IF NOT EXISTS waits (
  host String, boot_id String, batch UInt64, row UInt32, time DateTime('UTC'),
  slot_start_ns UInt64, slot_start_unix_ns Int64, tgid Int32, start_time_ns UInt64, comm String, cause String,
  ran_tgid Nullable(Int32), ran_start_time_ns Nullable(UInt64), ran_comm String, cpu Nullable(UInt32), ns UInt64,
  waits Nullable(UInt64), wait_start_ns Nullable(UInt64)
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(time) ORDER BY (host, time, batch, row);

-- Who processes are.
CREATE TABLE IF NOT EXISTS processes (
  host String, boot_id String, batch UInt64, row UInt32, time DateTime('UTC'),
  slot_start_ns UInt64, slot_start_unix_ns Int64, tgid Int32, start_time_ns UInt64, ppid Nullable(Int32), comm String,
  kind String, executable String, arguments String, cgroup String, container_id String, pod_uid String, pod String,
  unit String
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(time) ORDER BY (host, time, batch, row);

-- What each GPU did, and each process on it.
CREATE TABLE IF NOT EXISTS gpu (
  host String, boot_id String, batch UInt64, row UInt32, time DateTime('UTC'),
  slot_start_ns UInt64, slot_start_unix_ns Int64, kind String, gpu String, gpu_uuid String, tgid Nullable(Int32),
  start_time_ns Nullable(UInt64), comm String, cuda_device Nullable(Int32), gpu_mem_bytes Nullable(UInt64),
  gpu_active_ns Nullable(UInt64), gpu_launches Nullable(UInt64), process_sm_active_pct Nullable(Float64),
  sm_active_pct Nullable(Float64), sm_active_source String, sm_active_from_ns Nullable(UInt64),
  sm_active_to_ns Nullable(UInt64), gpu_used_bytes Nullable(UInt64), gpu_total_bytes Nullable(UInt64),
  gpu_no_work_ns Nullable(UInt64), gpu_no_work_ran_ns Nullable(UInt64), gpu_no_work_in_calls_ns Nullable(UInt64),
  gpu_no_work_waited_ns Nullable(UInt64), gpu_no_work_throttled_ns Nullable(UInt64),
  gpu_no_work_cuda_wait_ns Nullable(UInt64), gpu_no_work_disk_ns Nullable(UInt64),
  gpu_no_work_stopped_ns Nullable(UInt64), gpu_no_work_asleep_ns Nullable(UInt64),
  gpu_no_work_unknown_ns Nullable(UInt64), gpu_launcher_ran_ns Nullable(UInt64),
  gpu_launcher_in_calls_ns Nullable(UInt64)
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(time) ORDER BY (host, time, batch, row);

-- Kernels from launch to wait, and memory that was held.
CREATE TABLE IF NOT EXISTS spans (
  host String, boot_id String, batch UInt64, row UInt32, time DateTime('UTC'),
  span String, tgid Int32, start_time_ns UInt64, device Nullable(Int32), handle String, start_ns UInt64, end_ns UInt64,
  launches Nullable(UInt64), avg_threads Nullable(UInt64), bytes Nullable(UInt64), memory String, `end` String
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(time) ORDER BY (host, time, batch, row);

-- Incidents.
CREATE TABLE IF NOT EXISTS events (
  host String, boot_id String, batch UInt64, row UInt32, time DateTime('UTC'),
  slot_start_ns UInt64, slot_start_unix_ns Int64, event String, not_captured UInt64, what String
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(time) ORDER BY (host, time, batch, row);

-- Processes that launch less than they used to; json: all that is said of it.
CREATE TABLE IF NOT EXISTS straggle (
  host String, boot_id String, batch UInt64, row UInt32, time DateTime('UTC'),
  state String, tgid Int32, start_time_ns UInt64, comm String, until_unix_ns Int64,
  throughput_drop_pct Nullable(Float64), launches_per_s Nullable(Float64), baseline_launches_per_s Nullable(Float64),
  json String
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(time) ORDER BY (host, time, batch, row);

-- What detectors found; json: all of it, evidence included.
CREATE TABLE IF NOT EXISTS verdicts (
  host String, boot_id String, batch UInt64, row UInt32, time DateTime('UTC'),
  pattern_id String, headline String, remediation String, json String
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(time) ORDER BY (host, time, batch, row);

-- What this host saw of the ranks of a hang: each rank of each verdict that has such evidence.
CREATE TABLE IF NOT EXISTS rank_evidence (
  host String, boot_id String, batch UInt64, row UInt32, time DateTime('UTC'),
  headline String, operation String, pg_description String, rank Int32, role String, state String, reason String,
  pid Nullable(Int32), comm String, `from` String, `to` String, last_on_cpu_at String, slot_ms Nullable(Float64),
  cpu_ms Nullable(Float64), wait_ms Nullable(Float64), wait_others_ms Nullable(Float64), wait_self_ms Nullable(Float64),
  wait_throttled_ms Nullable(Float64), wait_wakeup_ms Nullable(Float64), wait_steal_ms Nullable(Float64),
  wait_unknown_ms Nullable(Float64), gpu_active_ms Nullable(Float64), gpu_no_work_ms Nullable(Float64),
  lost_ms Nullable(Float64), preemptions Nullable(UInt64), mbm_total_bytes Nullable(UInt64), wait_cause String,
  culprit_pid Nullable(Int32), culprit_comm String, culprit_ms Nullable(Float64)
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(time) ORDER BY (host, time, batch, row);

-- What follows makes it smaller and faster, where the server can.
-- where LowCardinality: DROP TABLE IF EXISTS slotscope_probe; CREATE TABLE slotscope_probe (word LowCardinality(String)) ENGINE = Memory; DROP TABLE slotscope_probe
ALTER TABLE slots
  MODIFY COLUMN boot_id LowCardinality(String),
  MODIFY COLUMN comm LowCardinality(String),
  MODIFY COLUMN kind LowCardinality(String),
  MODIFY COLUMN rdt_status LowCardinality(String),
  MODIFY COLUMN state LowCardinality(String);
ALTER TABLE seconds
  MODIFY COLUMN boot_id LowCardinality(String),
  MODIFY COLUMN comm LowCardinality(String),
  MODIFY COLUMN kind LowCardinality(String),
  MODIFY COLUMN rdt_status LowCardinality(String),
  MODIFY COLUMN state LowCardinality(String);
ALTER TABLE waits
  MODIFY COLUMN boot_id LowCardinality(String),
  MODIFY COLUMN comm LowCardinality(String),
  MODIFY COLUMN cause LowCardinality(String),
  MODIFY COLUMN ran_comm LowCardinality(String);
ALTER TABLE processes
  MODIFY COLUMN boot_id LowCardinality(String),
  MODIFY COLUMN comm LowCardinality(String),
  MODIFY COLUMN kind LowCardinality(String),
  MODIFY COLUMN executable LowCardinality(String),
  MODIFY COLUMN cgroup LowCardinality(String),
  MODIFY COLUMN container_id LowCardinality(String),
  MODIFY COLUMN pod_uid LowCardinality(String),
  MODIFY COLUMN pod LowCardinality(String),
  MODIFY COLUMN unit LowCardinality(String);
ALTER TABLE gpu
  MODIFY COLUMN boot_id LowCardinality(String),
  MODIFY COLUMN kind LowCardinality(String),
  MODIFY COLUMN gpu LowCardinality(String),
  MODIFY COLUMN gpu_uuid LowCardinality(String),
  MODIFY COLUMN comm LowCardinality(String),
  MODIFY COLUMN sm_active_source LowCardinality(String);
ALTER TABLE spans
  MODIFY COLUMN boot_id LowCardinality(String),
  MODIFY COLUMN span LowCardinality(String),
  MODIFY COLUMN memory LowCardinality(String);
ALTER TABLE events
  MODIFY COLUMN boot_id LowCardinality(String),
  MODIFY COLUMN event LowCardinality(String);
ALTER TABLE straggle
  MODIFY COLUMN boot_id LowCardinality(String),
  MODIFY COLUMN state LowCardinality(String),
  MODIFY COLUMN comm LowCardinality(String);
ALTER TABLE verdicts
  MODIFY COLUMN boot_id LowCardinality(String),
  MODIFY COLUMN pattern_id LowCardinality(String);
ALTER TABLE rank_evidence
  MODIFY COLUMN boot_id LowCardinality(String),
  MODIFY COLUMN state LowCardinality(String),
  MODIFY COLUMN comm LowCardinality(String);
-- where CODEC: DROP TABLE IF EXISTS slotscope_probe; CREATE TABLE slotscope_probe (n UInt64 CODEC(DoubleDelta, LZ4)) ENGINE = Memory; DROP TABLE slotscope_probe
ALTER TABLE slots
  MODIFY COLUMN slot_start_ns UInt64 CODEC(DoubleDelta, LZ4), MODIFY COLUMN slot_start_unix_ns Int64 CODEC(DoubleDelta, LZ4);
ALTER TABLE seconds
  MODIFY COLUMN slot_start_ns UInt64 CODEC(DoubleDelta, LZ4), MODIFY COLUMN slot_start_unix_ns Int64 CODEC(DoubleDelta, LZ4);
ALTER TABLE waits
  MODIFY COLUMN slot_start_ns UInt64 CODEC(DoubleDelta, LZ4), MODIFY COLUMN slot_start_unix_ns Int64 CODEC(DoubleDelta, LZ4);
ALTER TABLE gpu
  MODIFY COLUMN slot_start_ns UInt64 CODEC(DoubleDelta, LZ4), MODIFY COLUMN slot_start_unix_ns Int64 CODEC(DoubleDelta, LZ4);
