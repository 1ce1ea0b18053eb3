//! Every limit, default, timeout and file name of the daemon, with its unit in the name and its reason in the doc.

use std::time::Duration;

use agentd_protocol::methods::Mode;

/// Largest message a client may send, in bytes: a prompt with a few full-size images fits, a runaway writer does not.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// Most messages in a session's queues.
pub const MAX_QUEUED_MESSAGES: usize = 256;
/// Most text in a session's queues, in bytes: each change of them is told with all of it, as in pi.
pub const MAX_QUEUED_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// Most of a session's queues, images included, in bytes: no more than one message can bring.
pub const MAX_QUEUED_BYTES: usize = MAX_MESSAGE_BYTES;
/// Longest text of an error answer, in bytes: what a client sent wrongly is quoted, but not all of it.
pub const MAX_ERROR_BYTES: usize = 4096;
/// Longest name of a parameter in an error answer, in bytes: a path of keys can be as long as the message.
pub const MAX_PARAM_NAME_BYTES: usize = 256;
/// Longest name of a client that is kept, in characters: other clients are shown it.
pub const MAX_CLIENT_NAME_CHARS: usize = 200;
/// Longest name of a session, in characters: every page of the list carries it.
pub const MAX_SESSION_NAME_CHARS: usize = 1000;
/// Longest variable of a session's environment, name and value together, in bytes: Linux starts no program with a
/// longer one (128 KiB with the equals sign and the final NUL).
pub const MAX_ENV_VARIABLE_BYTES: usize = 128 * 1024 - 2;
/// Most variables of a session's environment together, in bytes: Linux lets variables and arguments have a quarter of
/// the stack's limit, which is 2 MiB by default, and a command may need the rest.
pub const MAX_ENV_BYTES: usize = 1024 * 1024;
/// Most requests in one batch.
pub const MAX_BATCH: usize = 1000;
/// Requests of a connection that are in their sessions' mailboxes and not answered yet; when there are so many, the
/// connection is not read.
pub const MAX_UNANSWERED_REQUESTS: usize = 64;
/// Requests of one connection that may wait for something to happen (`wait`, `abort`).
pub const MAX_WAITING_REQUESTS: usize = 1024;
/// Unsent answers of a connection at which its requests are no longer read, in bytes.
pub const MAX_UNSENT_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// Requests that wait in a session's mailbox; when it is full, connections wait and so stop reading.
pub const SESSION_MAILBOX: usize = 64;
/// What tools may do without a question unless the session or the settings say otherwise.
pub const DEFAULT_MODE: Mode = Mode::Full;
/// Most turns of one run unless the session says otherwise.
pub const DEFAULT_MAX_TURNS: u32 = 50;
/// Bytes of encoded events held for replay over all sessions.
pub const RING_BUDGET_BYTES: usize = 64 * 1024 * 1024;
/// Deltas of a finished message leave the ring this long after the session settled.
pub const RING_DELTA_KEEP: Duration = Duration::from_secs(30);
/// Longest time that a merged event of the `coalesced` view stays open.
pub const COALESCE_WINDOW: Duration = Duration::from_millis(50);
/// Size of the entries in an attach snapshot, in bytes.
pub const SNAPSHOT_ENTRY_BYTES: usize = 256 * 1024;
/// Least time between two `tool_execution_update` events of one call (pi: the same).
pub const TOOL_UPDATE_INTERVAL: Duration = Duration::from_millis(100);
/// Retries of a failed request (pi: the same).
pub const MAX_RETRIES: u32 = 3;
/// Pause before the first retry; it doubles each time (pi: the same).
pub const RETRY_BASE_DELAY: Duration = Duration::from_millis(2000);
/// Longest pause between retries, and longest `Retry-After` that is waited for (pi: the same cap on its own delay).
pub const MAX_RETRY_DELAY: Duration = Duration::from_millis(60_000);
/// Tool output kept for the model, in lines (pi: the same).
pub const TOOL_OUTPUT_LINES: usize = 2000;
/// Tool output kept for the model, in bytes (pi: the same).
pub const TOOL_OUTPUT_BYTES: usize = 50 * 1024;
/// Longest time that a file tool (read, edit, write, grep, find, ls) may take.
pub const FILE_TOOL_LIMIT: Duration = Duration::from_secs(30);
/// Matches that `grep` shows unless it is asked for another number (pi: the same).
pub const GREP_MATCHES: usize = 100;
/// Longest part of a line that `grep` shows, in characters (pi: the same).
pub const GREP_LINE_CHARS: usize = 500;
/// Most lines around a match that `grep` shows: with more of them a single match fills the result.
pub const GREP_MAX_CONTEXT: usize = 1000;
/// Longest line that `grep` looks at, in bytes: it is held whole, by each thread. A file with a longer one is left out,
/// which the result says.
pub const GREP_LINE_BYTES: usize = 32 * 1024 * 1024;
/// Most memory of a compiled pattern and of its cache, in bytes, each: a class of Unicode repeated some hundred times
/// fits, a bomb does not.
pub const GREP_PATTERN_BYTES: usize = 16 * 1024 * 1024;
/// Results that `find` shows unless it is asked for another number (pi: the same).
pub const FIND_RESULTS: usize = 1000;
/// Entries that `ls` shows unless it is asked for another number (pi: the same).
pub const LS_ENTRIES: usize = 500;
/// Most threads of one search; other sessions need the machine too.
pub const SEARCH_THREADS: usize = 4;
/// Files that a thread of a search takes at a time: few enough that little is searched in vain at the limit.
pub const SEARCH_BATCH: usize = 8;
/// Batches with results that wait for an earlier one; when there are so many, only what comes first is searched.
pub const SEARCH_AHEAD: usize = 32;
/// Longest glob, in bytes, and …
pub const MAX_GLOB_BYTES: usize = 4096;
/// … deepest braces in it: its parser recurses.
pub const MAX_GLOB_DEPTH: usize = 32;
/// Most of a `.gitignore` and the like that is read, in bytes: far above any real one.
pub const MAX_IGNORE_FILE_BYTES: u64 = 1024 * 1024;
/// How long a worker that was told to stop is waited for before it counts as stuck.
pub const WORKER_STOP_GRACE: Duration = Duration::from_millis(500);
/// Bytes of a file that `read` goes through to count its lines; beyond that the count is a lower bound.
pub const READ_SCAN_BYTES: u64 = 1024 * 1024 * 1024;
/// Largest file that `edit` takes into memory, in bytes.
pub const EDIT_MAX_BYTES: u64 = 512 * 1024 * 1024;
/// Files whose content a session remembers to have seen; beyond that the one seen longest ago is forgotten, and may be
/// changed whatever happened to it.
pub const KNOWN_FILES: usize = 512;
/// Largest file of which a session remembers the content (by its hash) and not only size and times, in bytes.
pub const KNOWN_HASH_BYTES: u64 = 8 * 1024 * 1024;
/// Largest file in which `edit` looks for text that only resembles what was asked for, in bytes: that needs a folded
/// copy of the file.
pub const EDIT_FUZZY_BYTES: usize = 8 * 1024 * 1024;
/// Longest diff or patch in the details of an edit, in bytes.
pub const EDIT_DIFF_BYTES: usize = 64 * 1024;
/// Longest line that is shown whole in a diff, in bytes.
pub const EDIT_DIFF_LINE_BYTES: usize = 2000;
/// Longest sleep until the deadline of a question: the clock of the system may be set meanwhile.
pub const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Longest text with which a person is shown what a tool call will do, in bytes; what is longer is cut and flagged.
pub const PREVIEW_BYTES: usize = 64 * 1024;
/// Longest content of a file that is shown as going away, in bytes.
pub const PREVIEW_OLD_BYTES: u64 = 4 * 1024 * 1024;
/// Time for finding the smallest diff of the changed lines; after that a larger one is shown.
pub const EDIT_DIFF_TIME: Duration = Duration::from_millis(300);
/// Widest and highest image that is handed to a model, in pixels (pi: the same).
pub const IMAGE_MAX_SIDE: u32 = 2000;
/// Longest base64 text of an image that is handed to a model, in bytes (pi: the same).
pub const IMAGE_MAX_BASE64_BYTES: usize = 4_718_592;
/// Most pixels of an image that is opened to make it smaller: above the 24 megapixels of common cameras. Together with
/// [`IMAGE_DECODE_BYTES`] it bounds what a small file that unpacks to a huge picture can cost.
pub const IMAGE_MAX_PIXELS: u64 = 25_000_000;
/// Most memory for the pixels of one image, in bytes: four for each of the most pixels, and two for each channel of
/// a deep picture half that size. One image is opened at a time in the whole daemon; decoders need as much again.
pub const IMAGE_DECODE_BYTES: u64 = 4 * IMAGE_MAX_PIXELS;
/// Largest image file that is opened, in bytes: a picture without losses of half the most pixels.
pub const IMAGE_MAX_FILE_BYTES: usize = 32 * 1024 * 1024;
/// Most images of one message of a client: what Anthropic takes in one request.
pub const MESSAGE_MAX_IMAGES: usize = 100;
/// Most base64 text of one message's images as they are stored, in bytes: providers take about as much in a request.
pub const MESSAGE_IMAGES_BYTES: usize = 32 * 1024 * 1024;
/// Pause between asking a process group to end (SIGTERM) and killing it (SIGKILL).
pub const TERMINATE_GRACE: Duration = Duration::from_secs(2);
/// How long killed processes are waited for before they are given up (they hang in the kernel).
pub const KILL_WAIT: Duration = Duration::from_secs(1);
/// Longest timeout of a command, in seconds (pi: the same, from the longest timer of its runtime).
pub const COMMAND_TIMEOUT_MAX_SECS: f64 = 2_147_483.647;
/// After the shell's end: a pipe that background processes keep open is left once nothing came for this long …
pub const DRAIN_QUIET: Duration = Duration::from_millis(100);
/// … or at the latest after this.
pub const DRAIN_LIMIT: Duration = Duration::from_millis(1000);
/// Output of a command in the machine-readable form, in bytes: half of it head, half tail (pi: the same).
pub const COMMAND_OUTPUT_BYTES: usize = 1024 * 1024;
/// Largest file of full output, in bytes; an endless command must not fill the disk.
pub const OUTPUT_FILE_BYTES: u64 = 1024 * 1024 * 1024;
/// How long files of full output are kept; older ones are removed when a daemon starts.
pub const OUTPUT_FILE_KEEP: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Live output of a command that waits to be sent, in bytes; of more, the end is sent and the rest left out with a
/// note. The result and its file are not touched by that.
pub const LIVE_OUTPUT_BYTES: usize = 256 * 1024;
/// Live output of a command that is sent in a second, in bytes: nobody reads faster, and a flood would only push
/// other events out of the ring (pi sends at most 0.5 MB/s).
pub const LIVE_OUTPUT_BYTES_PER_SEC: usize = 10 * LIVE_OUTPUT_BYTES;
/// Requests that wait for the thread that starts processes; when it is full, callers wait.
pub const SPAWN_QUEUE: usize = 64;
/// Sessions without a run, client, queue or question that stay in memory.
pub const MAX_IDLE_SESSIONS: usize = 256;
/// How long `list_sessions` waits for a comparison of the index with the files that is under way.
pub const INDEX_SETTLE_LIMIT: Duration = Duration::from_millis(500);
/// Most of a settings file that is read, in bytes: far above any real one.
pub const MAX_SETTINGS_BYTES: u64 = 1024 * 1024;
/// Changes of the list of sessions that are kept for those who watch it, in bytes: about a thousand rows.
pub const LIST_LOG_BYTES: usize = 512 * 1024;
/// How long a list waits until the change that it shows is numbered. That follows the write by itself; only where a
/// second daemon has written to the index does nobody number it.
pub const LIST_NUMBER_LIMIT: Duration = Duration::from_millis(200);
/// Folder of the session files, in the state directory.
pub const SESSIONS_DIR: &str = "sessions";
/// The SQLite index, in the state directory.
pub const INDEX_FILE: &str = "index.db";
/// Folder of the crash journals, in the state directory.
pub const JOURNAL_DIR: &str = "journal";
/// Folder of complete tool outputs, in the state directory.
pub const OUTPUTS_DIR: &str = "outputs";
/// Folder of the records of files that tools are overwriting in place, in the state directory.
pub const OVERWRITES_DIR: &str = "overwrites";
/// Decisions about which folders are trusted, in the state directory.
pub const TRUST_FILE: &str = "trust.json";
/// Most of that file, in bytes: some ten thousand decisions.
pub const MAX_TRUST_BYTES: u64 = 2 * 1024 * 1024;
/// The user's settings, in the configuration directory, and a project's, in its [`PROJECT_DIR`].
pub const CONFIG_FILE: &str = "config.toml";
/// Keys of providers, in the configuration directory and in pi's.
pub const AUTH_FILE: &str = "auth.json";
/// Largest key that is kept, in bytes; real ones have some hundred, tokens of log-ins some thousand.
pub const MAX_KEY_BYTES: usize = 64 * 1024;
/// Folder of a project with what it brings along for agentd.
pub const PROJECT_DIR: &str = ".agentd";
/// Pause of the demo model between two deltas: about the pace of a quick model.
pub const DEMO_DELAY: Duration = Duration::from_millis(12);
/// Statements of a `config.toml` with faults that are passed over one by one; from the next one on the file is given up.
pub const MAX_SYNTAX_FAULTS: usize = 32;
/// Models that the user configured, in the configuration directory and in pi's.
pub const MODELS_FILE: &str = "models.json";
/// pi's settings, in its directory.
pub const SETTINGS_FILE: &str = "settings.json";
/// Open files that the daemon allows itself, if the hard limit does: some tens of thousands of clients and sessions.
pub const MAX_OPEN_FILES: u64 = 65_536;
/// How long a daemon that may hold the socket is given to take a connection. A living one never needs it: the
/// system accepts on its behalf until its queue is full.
pub const LIVE_PROBE_LIMIT: Duration = Duration::from_millis(500);
/// Pause after a failed accept (out of descriptors, for one); it doubles up to [`ACCEPT_PAUSE_MAX`].
pub const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause after a failed accept: how late a client is served once descriptors are free again.
pub const ACCEPT_PAUSE_MAX: Duration = Duration::from_millis(1000);
/// Drain: limit of the step that ends the accept loop, which only has to notice.
pub const SHUTDOWN_ACCEPT_LIMIT: Duration = Duration::from_millis(500);
/// Drain: limit of the step that aborts runs. A tool gets [`TERMINATE_GRACE`] to end by itself before it is killed, and
/// its result is recorded; one that cannot be ended is left to the next step.
pub const SHUTDOWN_ABORT_LIMIT: Duration = Duration::from_millis(2750);
/// Drain: limit of the step that ends what tools left behind, again with [`TERMINATE_GRACE`]; with the step before, all
/// processes are gone within 5 s of the signal.
pub const SHUTDOWN_PROCESSES_LIMIT: Duration = Duration::from_millis(2250);
/// Drain: limit of the step that writes out what is in memory; a slow disk takes seconds to sync.
pub const SHUTDOWN_FLUSH_LIMIT: Duration = Duration::from_millis(3000);
/// Drain: limit of the step that writes the last answers; clients that do not read are left behind.
pub const SHUTDOWN_GOODBYE_LIMIT: Duration = Duration::from_millis(1000);
/// Drain: limit for tasks that were told to end.
pub const SHUTDOWN_TASKS_LIMIT: Duration = Duration::from_millis(1000);
/// Drain: limit for blocking work that still runs when all else is done; it is then cut off with the process.
pub const SHUTDOWN_RUNTIME_LIMIT: Duration = Duration::from_millis(200);
/// Most threads that run tasks. More than a few only cost memory: the work is small and mostly waiting.
pub const MAX_WORKER_THREADS: usize = 4;
/// Messages of running tools on their way to the session's actor; when full, the tools' output waits.
pub const TOOL_MESSAGES: usize = 64;
/// Pieces of output of one tool on their way; when full, the tool's pipe is not read.
pub const TOOL_PROGRESS: usize = 16;
/// How long a tool that was told to stop may take before it is left behind.
pub const TOOL_ABANDON: Duration = Duration::from_secs(6);
/// Reads of a model's response on their way to the session's actor; when full, the response is not read.
pub const STREAM_BATCHES: usize = 16;
/// Most turns of one run that can be asked for.
pub const MAX_MAX_TURNS: u32 = 1_000_000;
/// Sessions named when the end of an id fits several.
pub const MAX_AMBIGUOUS: usize = 10;
/// `customType` of the entry that keeps what pi's format has no entry for: tools and turn limit of a session.
pub const SETTINGS_ENTRY: &str = "agentd.session";
/// `customType` of the entry that keeps a question to people and its answer.
pub const APPROVAL_ENTRY: &str = "agentd.approval";
/// Longest remark beside an answer, in characters: it goes to every client.
pub const MAX_REMARK_CHARS: usize = 4_000;
/// Sessions that ask and are loaded side by side; the others wait for their turn.
pub const LOADS_AT_ONCE: usize = 8;
/// `errorMessage` of a response that the end of the daemon cut short.
pub const INTERRUPTED_MESSAGE: &str = "The daemon ended during this response";
/// How long deltas of a streaming response wait before they go to the crash journal.
pub const JOURNAL_INTERVAL: Duration = Duration::from_millis(100);
/// Kind of the notice that tools use the login shell's environment.
pub const LOGIN_ENV_NOTICE: &str = "login_shell_env";
/// How long the login shell may take to tell its environment.
pub const LOGIN_ENV_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a login shell that did not tell is left alone: one that hangs would hold up every session that is loaded.
pub const LOGIN_ENV_RETRY: Duration = Duration::from_secs(60);
/// Most that is read of the login shell's environment, in bytes: above what a system lets a process have.
pub const MAX_LOGIN_ENV_BYTES: u64 = 4 * 1024 * 1024;
/// Longest time of a command that names no timeout, when nobody is attached who could abort it.
pub const HEADLESS_COMMAND_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Folder of the records that say who writes which session, in the runtime directory.
pub const OWNERS_DIR: &str = "owners";
/// Connections that are open at once; one more is told `overloaded` and closed. Each takes a file descriptor.
pub const MAX_CONNECTIONS: usize = 1024;
/// Answers of one batch, in bytes, after which its further requests are refused: a batch is held whole until its end.
pub const MAX_BATCH_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// Bytes that a connection gathers for one write: large enough that a burst of deltas is one system call.
pub const WRITE_BATCH_BYTES: usize = 64 * 1024;
/// Bytes that may be held for ever for a client that does not read: some small answers and the events of one write. For
/// more than that, a client is given up that has taken nothing for …
pub const STUCK_CLIENT_BYTES: usize = 256 * 1024;
/// … this long. A program that is stopped for debugging, or a machine that sleeps, is back sooner or holds less.
pub const STUCK_CLIENT_LIMIT: Duration = Duration::from_secs(10 * 60);
/// A connection's write buffer is given back when it has grown beyond this many bytes.
pub const WRITE_BUFFER_KEEP_BYTES: usize = 16 * 1024;
/// How long clients may take to read their last answers when the daemon stops; within [`SHUTDOWN_GOODBYE_LIMIT`].
pub const GOODBYE_WRITE_LIMIT: Duration = Duration::from_millis(500);
/// Most of one file of instructions that goes into the system prompt, in bytes.
pub const MAX_CONTEXT_FILE_BYTES: usize = 64 * 1024;
/// Most of all files of instructions together, in bytes.
pub const MAX_CONTEXT_BYTES: usize = 256 * 1024;
/// Largest server-sent event of a provider, in bytes: far more than any real one, far less than would hurt.
pub const MAX_SSE_EVENT_BYTES: usize = 32 * 1024 * 1024;
/// Most blocks of one response: far more than a model makes. Finding the block of a piece takes longer with each.
pub const MAX_RESPONSE_BLOCKS: usize = 4096;
/// Body of a failed request that is read, in bytes; the rest of an error page says nothing.
pub const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// Longest time until a connection to a provider stands, TLS included.
pub const PROVIDER_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time from the request to the first event: long prompts are read slowly (pi: the same).
pub const PROVIDER_FIRST_EVENT_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest time between two events of a response (pi: the same). Keep-alive comments are no events.
pub const PROVIDER_IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest time for a command that prints a key; some ask a person to unlock something.
pub const KEY_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Age at which what servers of models on this machine said is asked for again when models are listed.
pub const LOCAL_MODELS_MAX_AGE: Duration = Duration::from_secs(10);
/// The same when a model is looked for and not found: somebody may just have started the server.
pub const LOCAL_MODELS_MISS_AGE: Duration = Duration::from_secs(1);
/// Rules of a user, in the settings folder, and of a project, in [`PROJECT_DIR`].
pub const RULES_FILE: &str = "rules.toml";
/// Largest file of rules, in bytes: thousands of rules. It is read again for each tool call.
pub const MAX_RULES_BYTES: u64 = 256 * 1024;
/// Longest command line that the gate reads, in bytes: far more than any that people would look through.
pub const SHELL_LINE_BYTES: usize = 64 * 1024;
/// Deepest nesting of a command line that the gate reads: it is followed by recursion, at most two levels for each `$(`.
pub const SHELL_NESTING: usize = 40;
