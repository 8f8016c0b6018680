-- Machines that have run a worker or a job. Those of earlier jobs are known from their supervisors.
CREATE TABLE machines (
    name TEXT PRIMARY KEY,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    worker_seen INTEGER
) STRICT;
INSERT INTO machines (name, first_seen, last_seen)
    SELECT machine, min(created_at), max(updated_at) FROM jobs
    WHERE machine IS NOT NULL AND supervisor IS NOT NULL GROUP BY machine;

-- The end of the output of jobs, for machines that do not have its file.
CREATE TABLE job_logs (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    first_byte INTEGER NOT NULL,
    text TEXT NOT NULL,
    next_byte INTEGER NOT NULL,
    PRIMARY KEY (job_id, first_byte)
) STRICT;
