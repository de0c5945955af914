-- SPDX-License-Identifier: MIT
-- Waits that lasted longer than slots stay open (cause earlier): until when, and why; and the views with them.

ALTER TABLE waits ADD COLUMN wait_until_ns Nullable(UInt64);
ALTER TABLE waits ADD COLUMN earlier_cause String;

-- The seconds of the last hour in which processes waited longest for a CPU, all threads together, the worst first. waited_ms is what the
-- causes and earlier_ms add up to: earlier_ms is of waits that ended in that second and had begun before it, or in slots that were finished;
-- their causes are in the table waits. worst_slot_ms is the most in a single slot, ran_instead who ran for longest meanwhile in it.
DROP TABLE IF EXISTS worst_waits;
CREATE VIEW worst_waits AS
SELECT time, host, comm, pod, tgid, waited_ms, others_ms, self_ms, throttled_ms, wakeup_ms, steal_ms, unknown_ms, earlier_ms, worst_slot_ms,
  ran_instead, ran_instead_tgid
FROM (
  SELECT time, host, boot_id, comm, tgid, start_time_ns, pod, waited_ms, others_ms, self_ms, throttled_ms, wakeup_ms, steal_ms, unknown_ms,
    earlier_ms, worst_slot_ms, ran_instead_tgid, ran_instead_start_ns
  FROM (
    SELECT time, host, boot_id, comm, ifNull(tgid, 0) AS tgid, ifNull(start_time_ns, 0) AS start_time_ns,
      (ifNull(wait_ns, 0) + ifNull(wait_earlier_ns, 0)) / 1000000 AS waited_ms, wait_others_ns / 1000000 AS others_ms,
      wait_self_ns / 1000000 AS self_ms, wait_throttled_ns / 1000000 AS throttled_ms, wait_wakeup_ns / 1000000 AS wakeup_ms,
      wait_steal_ns / 1000000 AS steal_ms, wait_unknown_ns / 1000000 AS unknown_ms, wait_earlier_ns / 1000000 AS earlier_ms,
      worst_wait_ns / 1000000 AS worst_slot_ms, ifNull(ran_instead_tgid, 0) AS ran_instead_tgid,
      ifNull(ran_instead_start_ns, 0) AS ran_instead_start_ns
    FROM seconds
    WHERE time > now() - 3600 AND (wait_ns > 0 OR wait_earlier_ns > 0)
  ) AS waited ANY LEFT JOIN (
    SELECT host, boot_id, tgid, start_time_ns, argMax(if(pod = '', pod_uid, pod), slot_start_ns) AS pod
    FROM processes
    WHERE time > now() - 3720
    GROUP BY host, boot_id, tgid, start_time_ns
  ) AS place USING (host, boot_id, tgid, start_time_ns)
  WHERE tgid > 0
) AS waited ANY LEFT JOIN (
  SELECT host, boot_id, tgid AS ran_instead_tgid, start_time_ns AS ran_instead_start_ns,
    argMax(multiIf(pod != '', pod, pod_uid != '', pod_uid, comm), slot_start_ns) AS ran_instead
  FROM processes
  WHERE time > now() - 3720
  GROUP BY host, boot_id, ran_instead_tgid, ran_instead_start_ns
) AS place USING (host, boot_id, ran_instead_tgid, ran_instead_start_ns)
ORDER BY waited_ms DESC;

-- Who kept whom waiting: of the last hour, pods (without a pod: the process's name) whose processes waited while those of another ran.
-- (several): those of long waits that ran too briefly to be named.
DROP TABLE IF EXISTS who_kept_whom_waiting;
CREATE VIEW who_kept_whom_waiting AS
SELECT host, waiter, ran, sum(ns) / 1000000 AS ms
FROM (
  SELECT host, if(waiter_pod = '', comm, waiter_pod) AS waiter,
    multiIf(ran_pod != '', ran_pod, ran_comm != '', ran_comm, '(several)') AS ran, ns
  FROM (
    SELECT host, boot_id, comm, ran_comm, ns, waiter_pod, ran_tgid, ran_start_time_ns
    FROM (
      SELECT host, boot_id, tgid, start_time_ns, comm, ran_comm, ns, ifNull(ran_tgid, 0) AS ran_tgid,
        ifNull(ran_start_time_ns, 0) AS ran_start_time_ns
      FROM waits
      WHERE time > now() - 3600 AND (cause = 'others' OR earlier_cause = 'others')
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

-- Noisy neighbours of the last day: what ran while how many processes of others waited, on how many hosts, and for how long. Pods go by
-- their pod; the others go by their name, and who has the same name is no neighbour.
DROP TABLE IF EXISTS noisy_neighbours;
CREATE VIEW noisy_neighbours AS
SELECT neighbour, sum(ns) / 1000000 AS ms, uniqExact(host) AS hosts, uniqExact(host, boot_id, tgid, start_time_ns) AS victims,
  max(time) AS last_seen
FROM (
  SELECT time, host, boot_id, tgid, start_time_ns, ns, if(waiter_pod = '', comm, waiter_pod) AS waiter,
    if(ran_pod = '', ran_comm, ran_pod) AS neighbour
  FROM (
    SELECT time, host, boot_id, tgid, start_time_ns, comm, ran_comm, ns, waiter_pod, ran_tgid, ran_start_time_ns
    FROM (
      SELECT time, host, boot_id, tgid, start_time_ns, comm, ran_comm, ns, ifNull(ran_tgid, 0) AS ran_tgid,
        ifNull(ran_start_time_ns, 0) AS ran_start_time_ns
      FROM waits
      WHERE time > now() - 86400 AND (cause = 'others' OR earlier_cause = 'others')
    ) AS waited ANY LEFT JOIN (
      SELECT host, boot_id, tgid, start_time_ns, argMax(if(pod = '', pod_uid, pod), slot_start_ns) AS waiter_pod
      FROM processes
      WHERE time > now() - 86520
      GROUP BY host, boot_id, tgid, start_time_ns
    ) AS place USING (host, boot_id, tgid, start_time_ns)
  ) AS waited ANY LEFT JOIN (
    SELECT host, boot_id, tgid AS ran_tgid, start_time_ns AS ran_start_time_ns, argMax(if(pod = '', pod_uid, pod), slot_start_ns) AS ran_pod
    FROM processes
    WHERE time > now() - 86520
    GROUP BY host, boot_id, tgid, start_time_ns
  ) AS place USING (host, boot_id, ran_tgid, ran_start_time_ns)
)
WHERE neighbour != '' AND waiter != neighbour
GROUP BY neighbour
ORDER BY ms DESC;
