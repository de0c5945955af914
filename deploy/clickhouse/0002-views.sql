-- SPDX-License-Identifier: MIT
-- What people ask of a fleet (doc/fleet-database.md). A view is a question that is kept; narrow it further, as in
-- SELECT * FROM worst_waits WHERE host = 'node7' LIMIT 20. (Servers since 20.3 want a name for each question that is joined.)

-- Where each process was, as it was said last; a pod of which only the uid is known is called by that. Processes are said again in each segment, so an hour of it has all that are there.
CREATE VIEW IF NOT EXISTS process_places AS
SELECT host, boot_id, tgid, start_time_ns, argMax(comm, slot_start_ns) AS name, argMax(if(pod = '', pod_uid, pod), slot_start_ns) AS pod,
  argMax(unit, slot_start_ns) AS unit, argMax(cgroup, slot_start_ns) AS cgroup
FROM processes
GROUP BY host, boot_id, tgid, start_time_ns;

-- The seconds of the last hour in which a process waited longest for a CPU in a single slot, the worst first.
CREATE VIEW IF NOT EXISTS worst_waits AS
SELECT time, host, comm, pod, tgid, worst_ms, wait_ms, others_ms, throttled_ms, steal_ms, ran_instead_tgid
FROM (
  SELECT time, host, boot_id, comm, assumeNotNull(tgid) AS tgid, assumeNotNull(start_time_ns) AS start_time_ns,
    worst_wait_ns / 1000000 AS worst_ms, wait_ns / 1000000 AS wait_ms, wait_others_ns / 1000000 AS others_ms,
    wait_throttled_ns / 1000000 AS throttled_ms, wait_steal_ns / 1000000 AS steal_ms, ran_instead_tgid
  FROM seconds
  WHERE time > now() - 3600 AND tgid IS NOT NULL AND worst_wait_ns > 0
) AS waited ANY LEFT JOIN (
  SELECT host, boot_id, tgid, start_time_ns, argMax(if(pod = '', pod_uid, pod), slot_start_ns) AS pod
  FROM processes
  WHERE time > now() - 3720
  GROUP BY host, boot_id, tgid, start_time_ns
) AS place USING (host, boot_id, tgid, start_time_ns)
ORDER BY worst_ms DESC;

-- Who kept whom waiting: of the last hour, pods (without a pod: the process's name) whose processes waited while those of another ran.
CREATE VIEW IF NOT EXISTS who_kept_whom_waiting AS
SELECT host, waiter, ran, sum(ns) / 1000000 AS ms
FROM (
  SELECT host, if(waiter_pod = '', comm, waiter_pod) AS waiter, if(ran_pod = '', ran_comm, ran_pod) AS ran, ns
  FROM (
    SELECT host, boot_id, comm, ran_comm, ns, waiter_pod, ran_tgid, ran_start_time_ns
    FROM (
      SELECT host, boot_id, tgid, start_time_ns, comm, ran_comm, ns, assumeNotNull(ran_tgid) AS ran_tgid,
        assumeNotNull(ran_start_time_ns) AS ran_start_time_ns
      FROM waits
      WHERE time > now() - 3600 AND cause = 'others'
    ) AS waited ANY LEFT JOIN (
      SELECT host, boot_id, tgid, start_time_ns, argMax(if(pod = '', pod_uid, pod), slot_start_ns) AS waiter_pod
      FROM processes
      WHERE time > now() - 3720
      GROUP BY host, boot_id, tgid, start_time_ns
    ) AS place USING (host, boot_id, tgid, start_time_ns)
  ) AS waited ANY LEFT JOIN (
    SELECT host, boot_id, tgid AS ran_tgid, start_time_ns AS ran_start_time_ns, argMax(if(pod = '', pod_uid, pod), slot_start_ns) AS ran_pod
    FROM processes
    WHERE time > now() - 3720
    GROUP BY host, boot_id, tgid, start_time_ns
  ) AS place USING (host, boot_id, ran_tgid, ran_start_time_ns)
)
GROUP BY host, waiter, ran
ORDER BY ms DESC;

-- Noisy neighbours of the last day: whose name ran while how many processes of others waited, on how many hosts, and for how long.
CREATE VIEW IF NOT EXISTS noisy_neighbours AS
SELECT ran_comm AS neighbour, sum(ns) / 1000000 AS ms, uniqExact(host) AS hosts, uniqExact(host, boot_id, tgid, start_time_ns) AS victims,
  max(time) AS last_seen
FROM waits
WHERE time > now() - 86400 AND cause = 'others' AND comm != ran_comm
GROUP BY neighbour
ORDER BY ms DESC;

-- The ranks that hold up a job, on which host each is, and what that host saw of it: the cause.
CREATE VIEW IF NOT EXISTS suspect_ranks AS
SELECT time, host, operation, rank, pid, comm, state, reason, wait_cause, culprit_comm, wait_ms, cpu_ms, gpu_no_work_ms, headline
FROM rank_evidence
WHERE role = 'suspect'
ORDER BY time DESC, rank;

-- Segments that are not there, or not all of them, and why.
CREATE VIEW IF NOT EXISTS lost_batches AS
SELECT start, host, table_name, segment, state, rows, (end_unix_ns - start_unix_ns) / 1000000000 AS seconds
FROM batches
WHERE state != 'shipped'
ORDER BY start DESC;
