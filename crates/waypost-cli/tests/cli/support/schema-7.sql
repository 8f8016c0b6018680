BEGIN TRANSACTION;
CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    runtime TEXT,
    role TEXT NOT NULL CHECK (role IN ('coordinator', 'worker', 'human')),
    status TEXT NOT NULL CHECK (status IN ('online', 'busy', 'offline')),
    capabilities TEXT NOT NULL CHECK (json_valid(capabilities)),
    workspace_id TEXT,
    metadata TEXT NOT NULL CHECK (json_valid(metadata)),
    process TEXT CHECK (json_valid(process)),
    timeout_ms INTEGER NOT NULL,
    max_claims INTEGER,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    registered_at INTEGER NOT NULL,
    last_heartbeat INTEGER NOT NULL,
    silent_at INTEGER,
    retired_at INTEGER
) STRICT;
INSERT INTO "agents" VALUES('ag_tuweb0pfkrnd','ann',NULL,'worker','online','[]',NULL,'{}',NULL,900000,NULL,'wt_sflltt8khx12',1767225600000,1794826318429,1794827218429,NULL);
INSERT INTO "agents" VALUES('ag_vgsdy1giditp','bob',NULL,'worker','offline','[]',NULL,'{}',NULL,900000,NULL,'wt_sflltt8khx12',1767225600000,1767225600000,NULL,NULL);
CREATE TABLE answers (
    key TEXT PRIMARY KEY,
    operation TEXT NOT NULL,
    request TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (json_valid(answer)),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE checkpoints (
    id TEXT PRIMARY KEY,
    task_id TEXT NOT NULL REFERENCES tasks (id),
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('plan', 'replan', 'progress', 'decision', 'error', 'recovery', 'complete')),
    summary TEXT NOT NULL,
    detail TEXT NOT NULL CHECK (json_valid(detail)),
    files TEXT NOT NULL CHECK (json_valid(files)),
    tokens INTEGER,
    cost REAL,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    epoch INTEGER NOT NULL,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL
) STRICT;
INSERT INTO "checkpoints" VALUES('cp_xx0tllqqe9c0','tk_ucl9zxrjyfqs',1,'progress','half of it','{}','[]',NULL,NULL,'ag_tuweb0pfkrnd',1,'wt_sflltt8khx12',1767225600000);
INSERT INTO "checkpoints" VALUES('cp_1b39sbkzxhov','tk_ybdn3sgla3m4',1,'progress','ten of twenty tests','{}','[]',NULL,NULL,'ag_tuweb0pfkrnd',1,'wt_sflltt8khx12',1767225600000);
CREATE TABLE deferred_changes (
    key TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    actor TEXT NOT NULL,
    changes TEXT NOT NULL CHECK (json_valid(changes)),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE dependencies (
    task_id TEXT NOT NULL REFERENCES tasks (id),
    depends_on TEXT NOT NULL REFERENCES tasks (id) CHECK (depends_on <> task_id),
    kind TEXT NOT NULL CHECK (kind IN ('blocks', 'informs')),
    PRIMARY KEY (task_id, depends_on)
) STRICT, WITHOUT ROWID;
INSERT INTO "dependencies" VALUES('tk_3ueecehs7j3f','tk_ybdn3sgla3m4','blocks');
INSERT INTO "dependencies" VALUES('tk_ybdn3sgla3m4','tk_ucl9zxrjyfqs','blocks');
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    actor TEXT NOT NULL,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    data TEXT NOT NULL CHECK (json_valid(data))
) STRICT;
INSERT INTO "events" VALUES(1,1767225600000,'uid 0','wt_sflltt8khx12','repository.registered','rp_htgx7wjkrdim','{"after":{"id":"rp_htgx7wjkrdim","name":"repo","path":"/home/ann/project","vcs":"git","remote_url":null,"default_branch":null}}');
INSERT INTO "events" VALUES(2,1767225600000,'uid 0','wt_sflltt8khx12','worktree.registered','wt_sflltt8khx12','{"after":{"id":"wt_sflltt8khx12","repository_id":"rp_htgx7wjkrdim","name":"repo","path":"/home/ann/project","branch":"master","first_seen":1767225600000,"last_seen":1767225600000,"removed_at":null}}');
INSERT INTO "events" VALUES(3,1767225600000,'ann','wt_sflltt8khx12','workflow.created','wf_il69tsww63nk','{"after":{"id":"wf_il69tsww63nk","name":"release","source":"prompt","source_ref":null,"source_content":null,"status":"planning","summary":null,"max_parallel":null,"base":null,"config":{},"reason":null,"worktree_id":"wt_sflltt8khx12","reach":"repository","created_at":1767225600000,"updated_at":1767225600000,"started_at":null,"finished_at":null},"repositories":["rp_htgx7wjkrdim"]}');
INSERT INTO "events" VALUES(4,1767225600000,'ann','wt_sflltt8khx12','task.added','tk_ucl9zxrjyfqs','{"after":{"id":"tk_ucl9zxrjyfqs","workflow_id":"wf_il69tsww63nk","name":"build","description":"compile it","status":"pending","sequence":1,"parallel_group":null,"priority":2,"plan":{},"acceptance":[],"context":{},"context_from":[],"capabilities":[],"files":[],"repository_id":"rp_htgx7wjkrdim","base":null,"workspace_id":null,"issue":null,"assignee":null,"attempts":0,"max_attempts":3,"backoff_ms":0,"queue_timeout_ms":null,"run_timeout_ms":null,"stall_timeout_ms":null,"needs_evidence":false,"outcome":null,"evidence":null,"error":null,"question":null,"answer":null,"worktree_id":"wt_sflltt8khx12","created_at":1767225600000,"updated_at":1767225600000,"queued_at":1767225600000,"started_at":null,"finished_at":null,"due_at":null}}');
INSERT INTO "events" VALUES(5,1767225600000,'ann','wt_sflltt8khx12','task.added','tk_ybdn3sgla3m4','{"after":{"id":"tk_ybdn3sgla3m4","workflow_id":"wf_il69tsww63nk","name":"test","description":"run the tests","status":"pending","sequence":2,"parallel_group":null,"priority":2,"plan":{},"acceptance":[],"context":{},"context_from":[],"capabilities":[],"files":[],"repository_id":"rp_htgx7wjkrdim","base":null,"workspace_id":null,"issue":null,"assignee":null,"attempts":0,"max_attempts":3,"backoff_ms":0,"queue_timeout_ms":null,"run_timeout_ms":null,"stall_timeout_ms":null,"needs_evidence":false,"outcome":null,"evidence":null,"error":null,"question":null,"answer":null,"worktree_id":"wt_sflltt8khx12","created_at":1767225600000,"updated_at":1767225600000,"queued_at":1767225600000,"started_at":null,"finished_at":null,"due_at":null}}');
INSERT INTO "events" VALUES(6,1767225600000,'ann','wt_sflltt8khx12','task.added','tk_3ueecehs7j3f','{"after":{"id":"tk_3ueecehs7j3f","workflow_id":"wf_il69tsww63nk","name":"ship","description":"publish","status":"pending","sequence":3,"parallel_group":null,"priority":2,"plan":{},"acceptance":[],"context":{},"context_from":[],"capabilities":[],"files":[],"repository_id":"rp_htgx7wjkrdim","base":null,"workspace_id":null,"issue":null,"assignee":null,"attempts":0,"max_attempts":3,"backoff_ms":0,"queue_timeout_ms":null,"run_timeout_ms":null,"stall_timeout_ms":null,"needs_evidence":false,"outcome":null,"evidence":null,"error":null,"question":null,"answer":null,"worktree_id":"wt_sflltt8khx12","created_at":1767225600000,"updated_at":1767225600000,"queued_at":1767225600000,"started_at":null,"finished_at":null,"due_at":null}}');
INSERT INTO "events" VALUES(7,1767225600000,'ann','wt_sflltt8khx12','task.dependency_added','tk_ybdn3sgla3m4','{"after":{"task_id":"tk_ybdn3sgla3m4","depends_on":"tk_ucl9zxrjyfqs","kind":"blocks"}}');
INSERT INTO "events" VALUES(8,1767225600000,'ann','wt_sflltt8khx12','task.dependency_added','tk_3ueecehs7j3f','{"after":{"task_id":"tk_3ueecehs7j3f","depends_on":"tk_ybdn3sgla3m4","kind":"blocks"}}');
INSERT INTO "events" VALUES(9,1767225600000,'ann','wt_sflltt8khx12','workflow.planned','wf_il69tsww63nk','{"changed":{"status":["planning","ready"]},"name":"release"}');
INSERT INTO "events" VALUES(10,1767225600000,'ann','wt_sflltt8khx12','workflow.started','wf_il69tsww63nk','{"changed":{"status":["ready","in_progress"],"started_at":[null,1767225600000]},"name":"release"}');
INSERT INTO "events" VALUES(11,1767225600000,'ann','wt_sflltt8khx12','agent.registered','ag_tuweb0pfkrnd','{"after":{"id":"ag_tuweb0pfkrnd","name":"ann","runtime":null,"role":"worker","status":"online","capabilities":[],"workspace_id":null,"metadata":{},"process":null,"timeout_ms":900000,"max_claims":null,"worktree_id":"wt_sflltt8khx12","registered_at":1767225600000,"last_heartbeat":1767225600000,"silent_at":1767226500000,"retired_at":null}}');
INSERT INTO "events" VALUES(12,1767225600000,'ann','wt_sflltt8khx12','agent.registered','ag_vgsdy1giditp','{"after":{"id":"ag_vgsdy1giditp","name":"bob","runtime":null,"role":"worker","status":"online","capabilities":[],"workspace_id":null,"metadata":{},"process":null,"timeout_ms":900000,"max_claims":null,"worktree_id":"wt_sflltt8khx12","registered_at":1767225600000,"last_heartbeat":1767225600000,"silent_at":1767226500000,"retired_at":null}}');
INSERT INTO "events" VALUES(13,1767225600000,'ann','wt_sflltt8khx12','task.claimed','tk_ucl9zxrjyfqs','{"changed":{"status":["pending","in_progress"],"started_at":[null,1767225600000]},"agent":"ag_tuweb0pfkrnd","epoch":1,"expires_at":1767229200000,"name":"build"}');
INSERT INTO "events" VALUES(14,1767225600000,'ann','wt_sflltt8khx12','task.checkpointed','tk_ucl9zxrjyfqs','{"checkpoint":"cp_xx0tllqqe9c0","sequence":1,"type":"progress","summary":"half of it","agent":"ag_tuweb0pfkrnd","epoch":1,"expires_at":1767229200000}');
INSERT INTO "events" VALUES(15,1767225600000,'ann','wt_sflltt8khx12','task.completed','tk_ucl9zxrjyfqs','{"changed":{"status":["in_progress","completed"],"outcome":[null,"built"],"finished_at":[null,1767225600000]},"agent":"ag_tuweb0pfkrnd","epoch":1,"name":"build"}');
INSERT INTO "events" VALUES(16,1767225600000,'ann','wt_sflltt8khx12','task.claimed','tk_ybdn3sgla3m4','{"changed":{"status":["pending","in_progress"],"started_at":[null,1767225600000]},"agent":"ag_tuweb0pfkrnd","epoch":1,"expires_at":1767229200000,"name":"test"}');
INSERT INTO "events" VALUES(17,1767225600000,'ann','wt_sflltt8khx12','task.checkpointed','tk_ybdn3sgla3m4','{"checkpoint":"cp_1b39sbkzxhov","sequence":1,"type":"progress","summary":"ten of twenty tests","agent":"ag_tuweb0pfkrnd","epoch":1,"expires_at":1767229200000}');
INSERT INTO "events" VALUES(18,1767225600000,'ann','wt_sflltt8khx12','message.sent','msg_j4fx7cbjmym7','{"sender":"ag_tuweb0pfkrnd","recipient":"ag_vgsdy1giditp","thread":"msg_j4fx7cbjmym7","type":"status_update","priority":"normal","subject":"please review"}');
INSERT INTO "events" VALUES(19,1767225600000,'ann','wt_sflltt8khx12','template.saved','tmpl_ef77qxm8hrsp','{"name":"releasing","version":1}');
INSERT INTO "events" VALUES(20,1794826318211,'ann','wt_sflltt8khx12','agent.offline','ag_vgsdy1giditp','{"last_heartbeat":1767225600000}');
INSERT INTO "events" VALUES(21,1794826318211,'ann','wt_sflltt8khx12','task.expired','tk_ybdn3sgla3m4','{"changed":{"status":["in_progress","failed"],"attempts":[0,1],"error":[null,"no heartbeat from ann since 2026-01-01T00:00:00.000Z"],"updated_at":[1767225600000,1794826318211],"due_at":[null,1794826318211]},"agent":"ag_tuweb0pfkrnd","epoch":1,"error":"no heartbeat from ann since 2026-01-01T00:00:00.000Z","name":"test"}');
INSERT INTO "events" VALUES(22,1794826318211,'ann','wt_sflltt8khx12','task.requeued','tk_ybdn3sgla3m4','{"changed":{"status":["failed","pending"],"queued_at":[1767225600000,1794826318211],"due_at":[1794826318211,null]},"name":"test"}');
INSERT INTO "events" VALUES(23,1794826318211,'ann','wt_sflltt8khx12','agent.offline','ag_tuweb0pfkrnd','{"last_heartbeat":1767225600000}');
INSERT INTO "events" VALUES(24,1794826318256,'ann','wt_sflltt8khx12','job.created','jb_yj94rfwkachn','{"after":{"id":"jb_yj94rfwkachn","type":"agent","description":"","input":null,"status":"pending","command":["true"],"settings":{"strategy":"in-place","log_limit":67108864,"cleanup":false,"launcher":{"boot_id":"00000000-0000-0000-0000-000000000000","pid":25772,"start_time":2544163}},"repository_id":"rp_htgx7wjkrdim","task_id":null,"epoch":null,"agent_id":"ag_tuweb0pfkrnd","workspace_id":null,"started_from":null,"result":null,"work_dir":"/home/ann/project","workspace_dir":null,"context_dir":null,"log":null,"machine":"machine","supervisor":null,"process":null,"phases":[{"name":"pending","at":1794826318256}],"output":null,"exit_code":null,"error":null,"warnings":[],"tokens":null,"cost":null,"retry_of":null,"cancelled_at":null,"worktree_id":"wt_sflltt8khx12","created_at":1794826318256,"updated_at":1794826318256,"started_at":null,"finished_at":null}}');
INSERT INTO "events" VALUES(25,1794826318335,'ann','wt_sflltt8khx12','job.taken','jb_yj94rfwkachn','{"changed":{"supervisor":[null,{"boot_id":"00000000-0000-0000-0000-000000000000","pid":25774,"start_time":2544184}]},"phases":[{"name":"preparing","at":1794826318335}],"task":null}');
INSERT INTO "events" VALUES(26,1794826318405,'ann','wt_sflltt8khx12','job.started','jb_yj94rfwkachn','{"changed":{"status":["pending","running"],"log":[null,"/home/ann/home/.waypost/workspaces/jobs/jb_yj94rfwkachn/output.log"],"process":[null,{"boot_id":"00000000-0000-0000-0000-000000000000","pid":25776,"start_time":2544194}],"started_at":[null,1794826318405]},"phases":[{"name":"running","at":1794826318405}],"task":null}');
INSERT INTO "events" VALUES(27,1794826318429,'ann','wt_sflltt8khx12','job.finished','jb_yj94rfwkachn','{"changed":{"status":["running","completed"],"finished_at":[null,1794826318429]},"phases":[{"name":"completed","at":1794826318429}],"task":null}');
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    description TEXT NOT NULL,
    input TEXT NOT NULL CHECK (json_valid(input)),
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled', 'interrupted')),
    command TEXT NOT NULL CHECK (json_valid(command)),
    settings TEXT NOT NULL CHECK (json_valid(settings)),
    repository_id TEXT NOT NULL REFERENCES repositories (id),
    task_id TEXT,
    epoch INTEGER,
    agent_id TEXT REFERENCES agents (id),
    workspace_id TEXT,
    work_dir TEXT NOT NULL,
    workspace_dir TEXT,
    context_dir TEXT,
    log TEXT,
    machine TEXT,
    supervisor TEXT CHECK (json_valid(supervisor)),
    process TEXT CHECK (json_valid(process)),
    token_hash TEXT,
    phases TEXT NOT NULL CHECK (json_valid(phases)),
    output TEXT,
    exit_code INTEGER,
    error TEXT CHECK (status NOT IN ('failed', 'interrupted') OR error IS NOT NULL),
    warnings TEXT NOT NULL CHECK (json_valid(warnings)),
    tokens INTEGER,
    cost REAL,
    retry_of TEXT,
    cancelled_at INTEGER,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER CHECK ((finished_at IS NULL) = (status IN ('pending', 'running')))
, started_from TEXT, result TEXT) STRICT;
INSERT INTO "jobs" VALUES('jb_yj94rfwkachn','agent','','null','completed','["true"]','{"strategy":"in-place","log_limit":67108864,"cleanup":false,"launcher":{"boot_id":"00000000-0000-0000-0000-000000000000","pid":25772,"start_time":2544163}}','rp_htgx7wjkrdim',NULL,NULL,'ag_tuweb0pfkrnd',NULL,'/home/ann/project',NULL,NULL,'/home/ann/home/.waypost/workspaces/jobs/jb_yj94rfwkachn/output.log','machine','{"boot_id":"00000000-0000-0000-0000-000000000000","pid":25774,"start_time":2544184}','{"boot_id":"00000000-0000-0000-0000-000000000000","pid":25776,"start_time":2544194}','e7ae2d0ffc5767d17146e8b1967fb1888063ec3af2c5cc351c105680f5424d83','[{"name":"pending","at":1794826318256},{"name":"preparing","at":1794826318335},{"name":"running","at":1794826318405},{"name":"completed","at":1794826318429}]',NULL,0,NULL,'[]',NULL,NULL,NULL,NULL,'wt_sflltt8khx12',1794826318256,1794826318429,1794826318405,1794826318429,NULL,NULL);
CREATE TABLE leases (
    subject TEXT PRIMARY KEY,
    holder TEXT REFERENCES agents (id),
    epoch INTEGER NOT NULL CHECK (epoch > 0),
    granted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    run_until INTEGER,
    stall_at INTEGER,
    deadline INTEGER NOT NULL,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id)
) STRICT;
INSERT INTO "leases" VALUES('tk_ucl9zxrjyfqs',NULL,1,1767225600000,1767229200000,3600000,NULL,NULL,1767229200000,'wt_sflltt8khx12');
INSERT INTO "leases" VALUES('tk_ybdn3sgla3m4',NULL,1,1767225600000,1767229200000,3600000,NULL,NULL,1767229200000,'wt_sflltt8khx12');
CREATE TABLE messages (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    sender TEXT NOT NULL REFERENCES agents (id),
    recipient TEXT NOT NULL REFERENCES agents (id),
    thread TEXT NOT NULL,
    reply_to TEXT REFERENCES messages (id),
    kind TEXT NOT NULL CHECK (kind IN ('task_assignment', 'status_update', 'query', 'response', 'broadcast')),
    priority TEXT NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    workflow_id TEXT REFERENCES workflows (id),
    task_id TEXT REFERENCES tasks (id),
    expires_at INTEGER,
    state TEXT NOT NULL CHECK (state IN ('queued', 'presented', 'read', 'acted')),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
INSERT INTO "messages" VALUES('msg_j4fx7cbjmym7',1,'ag_tuweb0pfkrnd','ag_vgsdy1giditp','msg_j4fx7cbjmym7',NULL,'status_update','normal','please review','please review',NULL,NULL,NULL,'queued','wt_sflltt8khx12',1767225600000,1767225600000);
CREATE TABLE notices (
    issue TEXT PRIMARY KEY,
    news TEXT NOT NULL CHECK (news IN ('finished', 'abandoned')),
    reason TEXT NOT NULL,
    actor TEXT NOT NULL,
    task_id TEXT REFERENCES tasks (id),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE repositories (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    vcs TEXT NOT NULL CHECK (vcs IN ('git', 'jj', 'hg', 'sl', 'none')),
    remote_url TEXT,
    default_branch TEXT
) STRICT;
INSERT INTO "repositories" VALUES('rp_htgx7wjkrdim','repo','/home/ann/project','git',NULL,NULL);
CREATE TABLE store_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    boot TEXT NOT NULL,
    offset_ms INTEGER NOT NULL,
    is_firm INTEGER NOT NULL CHECK (is_firm IN (0, 1)),
    doubt_wall INTEGER,
    doubt_since INTEGER,
    epoch_floor INTEGER NOT NULL
) STRICT;
INSERT INTO "store_state" VALUES(1,'00000000-0000-0000-0000-000000000000 time:[4026531834]',1794800876458,1,NULL,NULL,0);
CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    workflow_id TEXT NOT NULL REFERENCES workflows (id),
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'in_progress', 'paused', 'waiting_input', 'completed', 'failed', 'dead', 'skipped', 'cancelled')),
    sequence INTEGER NOT NULL,
    parallel_group TEXT,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 4),
    plan TEXT NOT NULL CHECK (json_valid(plan)),
    acceptance TEXT NOT NULL CHECK (json_valid(acceptance)),
    context TEXT NOT NULL CHECK (json_valid(context)),
    context_from TEXT NOT NULL CHECK (json_valid(context_from)),
    capabilities TEXT NOT NULL CHECK (json_valid(capabilities)),
    files TEXT NOT NULL CHECK (json_valid(files)),
    repository_id TEXT REFERENCES repositories (id),
    workspace_id TEXT,
    issue TEXT,
    assignee TEXT REFERENCES agents (id),
    attempts INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL CHECK (attempts <= max_attempts),
    backoff_ms INTEGER NOT NULL,
    queue_timeout_ms INTEGER,
    run_timeout_ms INTEGER,
    stall_timeout_ms INTEGER,
    needs_evidence INTEGER NOT NULL CHECK (needs_evidence IN (0, 1)),
    outcome TEXT CHECK (status <> 'completed' OR outcome IS NOT NULL),
    evidence TEXT CHECK (status <> 'completed' OR needs_evidence = 0 OR evidence IS NOT NULL),
    error TEXT CHECK (status NOT IN ('failed', 'dead') OR error IS NOT NULL),
    question TEXT,
    answer TEXT,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    queued_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    due_at INTEGER
, base TEXT) STRICT;
INSERT INTO "tasks" VALUES('tk_ucl9zxrjyfqs','wf_il69tsww63nk','build','compile it','completed',1,NULL,2,'{}','[]','{}','[]','[]','[]','rp_htgx7wjkrdim',NULL,NULL,NULL,0,3,0,NULL,NULL,NULL,0,'built',NULL,NULL,NULL,NULL,'wt_sflltt8khx12',1767225600000,1767225600000,1767225600000,1767225600000,1767225600000,NULL,NULL);
INSERT INTO "tasks" VALUES('tk_ybdn3sgla3m4','wf_il69tsww63nk','test','run the tests','pending',2,NULL,2,'{}','[]','{}','[]','[]','[]','rp_htgx7wjkrdim',NULL,NULL,NULL,1,3,0,NULL,NULL,NULL,0,NULL,NULL,'no heartbeat from ann since 2026-01-01T00:00:00.000Z',NULL,NULL,'wt_sflltt8khx12',1767225600000,1794826318211,1794826318211,1767225600000,NULL,NULL,NULL);
INSERT INTO "tasks" VALUES('tk_3ueecehs7j3f','wf_il69tsww63nk','ship','publish','pending',3,NULL,2,'{}','[]','{}','[]','[]','[]','rp_htgx7wjkrdim',NULL,NULL,NULL,0,3,0,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,'wt_sflltt8khx12',1767225600000,1767225600000,1767225600000,NULL,NULL,NULL,NULL);
CREATE TABLE templates (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    description TEXT NOT NULL,
    body TEXT NOT NULL CHECK (json_valid(body)),
    variables TEXT NOT NULL CHECK (json_valid(variables)),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL
) STRICT;
INSERT INTO "templates" VALUES('tmpl_ef77qxm8hrsp','releasing',1,'','{"summary":null,"max_parallel":null,"base":null,"tasks":[{"name":"build","description":"compile it","depends_on":[],"informed_by":[],"context_from":[],"parallel_group":null,"priority":null,"plan":null,"acceptance":[],"context":null,"capabilities":[],"files":[],"repository":null,"base":null,"issue":null,"max_attempts":null,"backoff":null,"timeout":null,"queue_timeout":null,"stall_timeout":null,"needs_evidence":false},{"name":"test","description":"run the tests","depends_on":["build"],"informed_by":[],"context_from":[],"parallel_group":null,"priority":null,"plan":null,"acceptance":[],"context":null,"capabilities":[],"files":[],"repository":null,"base":null,"issue":null,"max_attempts":null,"backoff":null,"timeout":null,"queue_timeout":null,"stall_timeout":null,"needs_evidence":false},{"name":"ship","description":"publish","depends_on":["test"],"informed_by":[],"context_from":[],"parallel_group":null,"priority":null,"plan":null,"acceptance":[],"context":null,"capabilities":[],"files":[],"repository":null,"base":null,"issue":null,"max_attempts":null,"backoff":null,"timeout":null,"queue_timeout":null,"stall_timeout":null,"needs_evidence":false}]}','[]','wt_sflltt8khx12',1767225600000);
CREATE TABLE workflow_repositories (
    workflow_id TEXT NOT NULL REFERENCES workflows (id),
    repository_id TEXT NOT NULL REFERENCES repositories (id),
    PRIMARY KEY (workflow_id, repository_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "workflow_repositories" VALUES('wf_il69tsww63nk','rp_htgx7wjkrdim');
CREATE TABLE workflows (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('prompt', 'issue', 'template', 'github', 'custom')),
    source_ref TEXT,
    source_content TEXT,
    status TEXT NOT NULL CHECK (status IN ('planning', 'ready', 'in_progress', 'paused', 'awaiting_merge', 'completed', 'failed', 'cancelled')),
    summary TEXT,
    max_parallel INTEGER CHECK (max_parallel > 0),
    config TEXT NOT NULL CHECK (json_valid(config)),
    reason TEXT,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER
, base TEXT, reach TEXT NOT NULL DEFAULT 'repository' CHECK (reach IN ('worktree', 'repository'))) STRICT;
INSERT INTO "workflows" VALUES('wf_il69tsww63nk','release','prompt',NULL,NULL,'in_progress',NULL,NULL,'{}',NULL,'wt_sflltt8khx12',1767225600000,1767225600000,1767225600000,NULL,NULL,'repository');
CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    repository_id TEXT NOT NULL REFERENCES repositories (id),
    job_id TEXT,
    machine TEXT NOT NULL,
    path TEXT NOT NULL,
    strategy TEXT NOT NULL CHECK (strategy IN ('clone', 'overlay', 'worktree', 'jj', 'copy', 'in-place')),
    branch TEXT,
    base TEXT,
    status TEXT NOT NULL CHECK (status IN ('creating', 'active', 'kept', 'snapshotted', 'removed', 'lost')),
    size INTEGER,
    identity TEXT CHECK (json_valid(identity)),
    is_pinned INTEGER NOT NULL CHECK (is_pinned IN (0, 1)),
    snapshot TEXT,
    merge_commit TEXT,
    pr_url TEXT,
    note TEXT,
    plan TEXT NOT NULL CHECK (json_valid(plan)),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    removed_at INTEGER CHECK ((removed_at IS NULL) = (status NOT IN ('snapshotted', 'removed')))
) STRICT;
CREATE TABLE worktrees (
    id TEXT PRIMARY KEY,
    repository_id TEXT NOT NULL REFERENCES repositories (id),
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    branch TEXT,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    removed_at INTEGER
) STRICT;
INSERT INTO "worktrees" VALUES('wt_sflltt8khx12','rp_htgx7wjkrdim','repo','/home/ann/project','master',1767225600000,1794826318429,NULL);
CREATE INDEX events_by_worktree ON events (worktree_id, sequence);
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
CREATE INDEX workflows_by_time ON workflows (created_at, id);
CREATE INDEX workflows_by_name ON workflows (name);
CREATE INDEX workflows_running ON workflows (id) WHERE status = 'in_progress';
CREATE INDEX agents_by_silence ON agents (silent_at) WHERE status <> 'offline';
CREATE UNIQUE INDEX tasks_by_name ON tasks (workflow_id, name);
CREATE INDEX tasks_by_plan ON tasks (workflow_id, sequence, id);
CREATE INDEX tasks_named ON tasks (name, created_at);
CREATE INDEX tasks_by_status ON tasks (status, updated_at, id);
CREATE INDEX tasks_pending ON tasks (status, priority, queued_at, sequence, id) WHERE status = 'pending';
CREATE INDEX tasks_pending_of_workflow ON tasks (workflow_id, priority, queued_at, sequence, id) WHERE status = 'pending';
CREATE INDEX tasks_by_state_of_workflow ON tasks (workflow_id, status);
CREATE INDEX tasks_due ON tasks (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX dependencies_by_blocker ON dependencies (depends_on);
CREATE UNIQUE INDEX checkpoints_by_task ON checkpoints (task_id, sequence);
CREATE INDEX leases_by_holder ON leases (holder, subject) WHERE holder IS NOT NULL;
CREATE INDEX leases_due ON leases (deadline, subject) WHERE holder IS NOT NULL;
CREATE INDEX messages_waiting ON messages (recipient, number) WHERE state <> 'acted';
CREATE INDEX messages_by_thread ON messages (thread, number);
CREATE INDEX messages_by_task ON messages (task_id) WHERE task_id IS NOT NULL;
CREATE UNIQUE INDEX templates_by_name ON templates (name, version);
CREATE INDEX answers_by_time ON answers (created_at);
CREATE INDEX events_by_subject ON events (subject, sequence);
CREATE INDEX jobs_by_time ON jobs (created_at, id);
CREATE INDEX jobs_live ON jobs (created_at, id) WHERE finished_at IS NULL;
CREATE INDEX jobs_by_task ON jobs (task_id, created_at, id) WHERE task_id IS NOT NULL;
CREATE INDEX jobs_by_token ON jobs (token_hash) WHERE token_hash IS NOT NULL;
CREATE INDEX workspaces_by_time ON workspaces (created_at, id);
CREATE INDEX workspaces_live ON workspaces (created_at, id) WHERE removed_at IS NULL;
CREATE INDEX workspaces_by_job ON workspaces (job_id, created_at, id) WHERE job_id IS NOT NULL;
CREATE INDEX tasks_pending_of_worktree ON tasks (worktree_id, priority, queued_at, sequence, id) WHERE status = 'pending';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',27);
COMMIT;
