CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE environment (
	id VARCHAR(64) NOT NULL,
	device VARCHAR(32) NOT NULL,
	chip VARCHAR(200) NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_environment PRIMARY KEY (id)
);
CREATE TABLE program (
	id VARCHAR(64) NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_program PRIMARY KEY (id)
);
CREATE TABLE task_word (
	word VARCHAR(200) NOT NULL,
	task_id VARCHAR(64) NOT NULL,
	CONSTRAINT pk_task_word PRIMARY KEY (word, task_id),
	CONSTRAINT fk_task_word_task_id FOREIGN KEY(task_id) REFERENCES task (id)
);
CREATE TABLE candidate (
	id VARCHAR(64) NOT NULL,
	task_id VARCHAR(64) NOT NULL,
	program_id VARCHAR(64) NOT NULL,
	author VARCHAR(200) NOT NULL,
	idea TEXT NOT NULL,
	schedule TEXT NOT NULL,
	parent_program_id VARCHAR(64),
	campaign_id VARCHAR(64) NOT NULL,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_candidate PRIMARY KEY (id),
	CONSTRAINT fk_candidate_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id),
	CONSTRAINT fk_candidate_program_id FOREIGN KEY(program_id) REFERENCES program (id),
	CONSTRAINT fk_candidate_task_id FOREIGN KEY(task_id) REFERENCES task (id),
	CONSTRAINT uq_candidate_task_id_program_id UNIQUE (task_id, program_id)
);
CREATE TABLE evaluation (
	id VARCHAR(64) NOT NULL,
	candidate_id VARCHAR(64) NOT NULL,
	task_id VARCHAR(64) NOT NULL,
	environment_id VARCHAR(64) NOT NULL,
	evaluator_version INTEGER NOT NULL,
	device VARCHAR(32) NOT NULL,
	status VARCHAR(32) NOT NULL,
	stage VARCHAR(32),
	summary TEXT NOT NULL,
	rank_kind VARCHAR(16),
	rank_value DOUBLE,
	body TEXT NOT NULL,
	duration_s DOUBLE NOT NULL,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_evaluation PRIMARY KEY (id),
	CONSTRAINT fk_evaluation_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id),
	CONSTRAINT fk_evaluation_environment_id FOREIGN KEY(environment_id) REFERENCES environment (id),
	CONSTRAINT fk_evaluation_task_id FOREIGN KEY(task_id) REFERENCES task (id)
);
CREATE TABLE regression_case (
	id VARCHAR(64) NOT NULL,
	task_id VARCHAR(64) NOT NULL,
	candidate_id VARCHAR(64),
	body TEXT NOT NULL,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_regression_case PRIMARY KEY (id),
	CONSTRAINT fk_regression_case_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id),
	CONSTRAINT fk_regression_case_task_id FOREIGN KEY(task_id) REFERENCES task (id)
);
CREATE TABLE sample_set (
	evaluation_id VARCHAR(64) NOT NULL,
	arm VARCHAR(64) NOT NULL,
	nanoseconds BLOB NOT NULL,
	CONSTRAINT pk_sample_set PRIMARY KEY (evaluation_id, arm),
	CONSTRAINT fk_sample_set_evaluation_id FOREIGN KEY(evaluation_id) REFERENCES evaluation (id)
);
CREATE TABLE wanted (
	fingerprint VARCHAR(64) NOT NULL,
	origin VARCHAR(64) NOT NULL,
	function VARCHAR(200) NOT NULL,
	inputs TEXT NOT NULL,
	graph TEXT NOT NULL,
	calls INTEGER NOT NULL,
	last_seen_at DATETIME NOT NULL,
	CONSTRAINT pk_wanted PRIMARY KEY (fingerprint, origin)
);
CREATE TABLE champion_word (
	task_id VARCHAR(64) NOT NULL,
	device VARCHAR(32) NOT NULL,
	chip VARCHAR(200) NOT NULL,
	word VARCHAR(200) NOT NULL,
	crowned_at DATETIME NOT NULL,
	dtype VARCHAR(16) NOT NULL,
	shapes TEXT NOT NULL,
	CONSTRAINT pk_champion_word PRIMARY KEY (task_id, device, chip, word),
	CONSTRAINT fk_champion_word_champion FOREIGN KEY(task_id, device, chip) REFERENCES champion (task_id, device, chip)
);
CREATE TABLE event (
	id INTEGER NOT NULL,
	campaign_id VARCHAR(64) NOT NULL,
	at DATETIME NOT NULL,
	kind VARCHAR(64) NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_event PRIMARY KEY (id),
	CONSTRAINT fk_event_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id)
);
CREATE TABLE "call" (
	id VARCHAR(64) NOT NULL,
	campaign_id VARCHAR(64),
	task_id VARCHAR(64),
	parent_id VARCHAR(64),
	state VARCHAR(16) NOT NULL,
	provider VARCHAR(64) NOT NULL,
	model VARCHAR(200) NOT NULL,
	role VARCHAR(32) NOT NULL,
	template_hash VARCHAR(64) NOT NULL,
	request_hash VARCHAR(64) NOT NULL,
	ordinal INTEGER NOT NULL,
	request TEXT NOT NULL,
	reply TEXT,
	failure TEXT,
	input_tokens INTEGER NOT NULL,
	cached_input_tokens INTEGER NOT NULL,
	output_tokens INTEGER NOT NULL,
	reserved_microdollars INTEGER NOT NULL,
	cost_microdollars INTEGER NOT NULL,
	latency_s DOUBLE,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_call PRIMARY KEY (id),
	CONSTRAINT fk_call_task_id FOREIGN KEY(task_id) REFERENCES task (id),
	CONSTRAINT fk_call_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id),
	CONSTRAINT fk_call_parent_id FOREIGN KEY(parent_id) REFERENCES call (id),
	CONSTRAINT uq_call_request_hash_ordinal UNIQUE (request_hash, ordinal),
	CONSTRAINT ck_call_state CHECK (state IN ('begun', 'finished', 'failed'))
);
CREATE TABLE "campaign" (
	id VARCHAR(64) NOT NULL,
	name VARCHAR(200) NOT NULL,
	state VARCHAR(16) NOT NULL,
	spec TEXT NOT NULL,
	environment_id VARCHAR(64) NOT NULL,
	owner VARCHAR(200) NOT NULL,
	started_at DATETIME NOT NULL,
	heartbeat_at DATETIME NOT NULL,
	ended_at DATETIME,
	elapsed_s DOUBLE DEFAULT '0' NOT NULL,
	root_id VARCHAR(64) NOT NULL,
	CONSTRAINT pk_campaign PRIMARY KEY (id),
	CONSTRAINT fk_campaign_environment_id FOREIGN KEY(environment_id) REFERENCES environment (id),
	CONSTRAINT ck_campaign_state CHECK (state IN ('running', 'finished', 'capped', 'interrupted', 'failed'))
);
CREATE TABLE campaign_task (
	campaign_id VARCHAR(64) NOT NULL,
	task_id VARCHAR(64) NOT NULL,
	function VARCHAR(200) NOT NULL,
	CONSTRAINT pk_campaign_task PRIMARY KEY (campaign_id, task_id),
	CONSTRAINT fk_campaign_task_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id),
	CONSTRAINT fk_campaign_task_task_id FOREIGN KEY(task_id) REFERENCES task (id)
);
CREATE TABLE "task" (
	id VARCHAR(64) NOT NULL,
	name VARCHAR(200) NOT NULL,
	signature TEXT NOT NULL,
	dtype VARCHAR(16) NOT NULL,
	shapes TEXT NOT NULL,
	graph TEXT NOT NULL,
	created_at DATETIME NOT NULL,
	tuning_key VARCHAR(64) NOT NULL,
	CONSTRAINT pk_task PRIMARY KEY (id)
);
CREATE TABLE "champion" (
	task_id VARCHAR(64) NOT NULL,
	device VARCHAR(32) NOT NULL,
	chip VARCHAR(200) NOT NULL,
	candidate_id VARCHAR(64) NOT NULL,
	evaluation_id VARCHAR(64) NOT NULL,
	environment_id VARCHAR(64) NOT NULL,
	state VARCHAR(16) NOT NULL,
	rank_kind VARCHAR(16) NOT NULL,
	rank_value DOUBLE NOT NULL,
	crowned_at DATETIME NOT NULL,
	speedup DOUBLE,
	speedup_lower DOUBLE,
	speedup_upper DOUBLE,
	speedup_kind VARCHAR(16),
	baseline VARCHAR(64),
	CONSTRAINT pk_champion PRIMARY KEY (task_id, device, chip),
	CONSTRAINT fk_champion_environment_id FOREIGN KEY(environment_id) REFERENCES environment (id),
	CONSTRAINT fk_champion_evaluation_id FOREIGN KEY(evaluation_id) REFERENCES evaluation (id),
	CONSTRAINT fk_champion_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id),
	CONSTRAINT fk_champion_task_id FOREIGN KEY(task_id) REFERENCES task (id),
	CONSTRAINT ck_champion_state CHECK (state IN ('fresh', 'stale', 'revoked')),
	CONSTRAINT ck_champion_rank_kind CHECK (rank_kind IN ('measured', 'predicted', 'traffic'))
);
CREATE TABLE "trial" (
	id VARCHAR(64) NOT NULL,
	campaign_id VARCHAR(64) NOT NULL,
	candidate_id VARCHAR(64) NOT NULL,
	state VARCHAR(16) NOT NULL,
	attempts INTEGER NOT NULL,
	lease_owner VARCHAR(200),
	lease_expires_at DATETIME,
	evaluation_id VARCHAR(64),
	reused BOOLEAN NOT NULL,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_trial PRIMARY KEY (id),
	CONSTRAINT fk_trial_evaluation_id FOREIGN KEY(evaluation_id) REFERENCES evaluation (id),
	CONSTRAINT fk_trial_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id),
	CONSTRAINT uq_trial_campaign_id_candidate_id UNIQUE (campaign_id, candidate_id),
	CONSTRAINT fk_trial_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id),
	CONSTRAINT ck_trial_state CHECK (state IN ('intended', 'evaluating', 'confirming', 'done'))
);
CREATE TABLE "lesson" (
	id VARCHAR(64) NOT NULL,
	text TEXT NOT NULL,
	signature VARCHAR(200) NOT NULL,
	dtype VARCHAR(16),
	device VARCHAR(32),
	state VARCHAR(16) NOT NULL,
	evidence TEXT NOT NULL,
	helped INTEGER NOT NULL,
	hurt INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_lesson PRIMARY KEY (id),
	CONSTRAINT ck_lesson_state CHECK (state IN ('proposed', 'trusted', 'refuted'))
);
CREATE TABLE machine_trial (
	task_id VARCHAR(64) NOT NULL,
	candidate_id VARCHAR(64) NOT NULL,
	device VARCHAR(20) NOT NULL,
	chip VARCHAR(120) NOT NULL,
	runtime VARCHAR(200) NOT NULL,
	is_kept BOOLEAN NOT NULL,
	has_same_bits BOOLEAN NOT NULL,
	kernel_us DOUBLE,
	mlx_us DOUBLE,
	reason TEXT NOT NULL,
	tried_at DATETIME NOT NULL,
	CONSTRAINT pk_machine_trial PRIMARY KEY (task_id, candidate_id, device, chip, runtime)
);
CREATE TABLE fleet_worker (
	id VARCHAR(64) NOT NULL,
	queue VARCHAR(128) NOT NULL,
	version VARCHAR(64) NOT NULL,
	environment TEXT NOT NULL,
	host VARCHAR(200) NOT NULL,
	process BIGINT NOT NULL,
	jobs INTEGER NOT NULL,
	started_at DATETIME NOT NULL,
	seen_at DATETIME NOT NULL,
	CONSTRAINT pk_fleet_worker PRIMARY KEY (id)
);
CREATE TABLE fleet_job (
	id VARCHAR(64) NOT NULL,
	queued_id BIGINT,
	worker VARCHAR(200),
	verdict TEXT,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_fleet_job PRIMARY KEY (id)
);
CREATE INDEX ix_task_word_task_id ON task_word (task_id);
CREATE INDEX ix_candidate_program_id ON candidate (program_id);
CREATE INDEX ix_evaluation_candidate_id_environment_id_evaluator_version ON evaluation (candidate_id, environment_id, evaluator_version);
CREATE INDEX ix_evaluation_task_id_device_status ON evaluation (task_id, device, status);
CREATE INDEX ix_regression_case_task_id ON regression_case (task_id);
CREATE INDEX ix_wanted_last_seen_at ON wanted (last_seen_at);
CREATE INDEX ix_champion_word_found ON champion_word (word, crowned_at, device, dtype, shapes, task_id, chip);
CREATE INDEX ix_event_campaign_id_id ON event (campaign_id, id);
CREATE INDEX ix_call_task_id ON call (task_id);
CREATE INDEX ix_call_campaign_id_created_at ON call (campaign_id, created_at);
CREATE INDEX ix_campaign_started_at ON campaign (started_at);
CREATE INDEX ix_campaign_root_id ON campaign (root_id);
CREATE INDEX ix_campaign_task_task_id ON campaign_task (task_id);
CREATE INDEX ix_campaign_task_function ON campaign_task (function);
CREATE INDEX ix_task_dtype ON task (dtype);
CREATE INDEX ix_task_tuning_key ON task (tuning_key);
CREATE INDEX ix_champion_crowned_at ON champion (crowned_at);
CREATE INDEX ix_champion_device_crowned_at ON champion (device, crowned_at);
CREATE INDEX ix_champion_speedup ON champion (speedup);
CREATE INDEX ix_trial_created_at ON trial (created_at);
CREATE INDEX ix_lesson_signature ON lesson (signature);
CREATE INDEX ix_fleet_worker_queue_seen_at ON fleet_worker (queue, seen_at);
CREATE INDEX ix_fleet_job_created_at ON fleet_job (created_at);
CREATE INDEX ix_trial_campaign_id_created_at ON trial (campaign_id, created_at);
CREATE INDEX ix_trial_outcome ON trial (campaign_id, candidate_id, evaluation_id, state, reused, created_at, id);
CREATE INDEX ix_trial_candidate_outcome ON trial (candidate_id, state, evaluation_id);
CREATE INDEX ix_evaluation_outcome ON evaluation (id, status, task_id, candidate_id, rank_kind, rank_value);
CREATE INDEX ix_evaluation_best ON evaluation (status, task_id, rank_kind, rank_value, candidate_id);
INSERT INTO alembic_version (version_num) VALUES ('0008');
