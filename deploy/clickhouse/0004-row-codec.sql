-- SPDX-License-Identifier: MIT
-- Rows of a batch are numbered, and lie in that order: as numbers they were the largest column, as differences they are nothing.

-- where CODEC: DROP TABLE IF EXISTS slotscope_probe; CREATE TABLE slotscope_probe (n UInt32 CODEC(Delta, LZ4)) ENGINE = Memory; DROP TABLE slotscope_probe
ALTER TABLE slots MODIFY COLUMN row UInt32 CODEC(Delta, LZ4);
ALTER TABLE seconds MODIFY COLUMN row UInt32 CODEC(Delta, LZ4);
ALTER TABLE waits MODIFY COLUMN row UInt32 CODEC(Delta, LZ4);
ALTER TABLE processes MODIFY COLUMN row UInt32 CODEC(Delta, LZ4);
ALTER TABLE gpu MODIFY COLUMN row UInt32 CODEC(Delta, LZ4);
ALTER TABLE spans MODIFY COLUMN row UInt32 CODEC(Delta, LZ4);
ALTER TABLE straggle MODIFY COLUMN row UInt32 CODEC(Delta, LZ4);
ALTER TABLE events MODIFY COLUMN row UInt32 CODEC(Delta, LZ4);
ALTER TABLE verdicts MODIFY COLUMN row UInt32 CODEC(Delta, LZ4);
ALTER TABLE rank_evidence MODIFY COLUMN row UInt32 CODEC(Delta, LZ4);
