use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;

use super::*;
use crate::constants::TERMINATE_GRACE;
use crate::exec::procfs::processes;
use crate::exec::test_support::spawner;

fn command(script: &str) -> ExecCommand {
    ExecCommand {
        argv: ["/bin/bash", "-c", script].map(str::to_owned).to_vec(),
        env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap()), ("ONLY".to_owned(), "this".to_owned())],
        cwd: std::env::temp_dir(),
        call_id: "c/1".to_owned(),
    }
}

async fn output_of(script: &str) -> (String, ExitStatus) {
    let mut running = spawner().spawn(command(script)).await.unwrap();
    let mut output = String::new();
    running.output.read_to_string(&mut output).await.unwrap();
    (output, running.wait().await.unwrap())
}

/// Waits for a file that the script makes once it is set up.
async fn wait_for(path: &Path) {
    let end = Instant::now() + Duration::from_secs(10);
    while !path.exists() {
        assert!(Instant::now() < end, "{} does not appear", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn alive_with(marker: &str) -> usize {
    processes().filter(|process| process.is_alive() && process.call_marker().as_deref() == Some(marker)).count()
}

#[tokio::test]
async fn output_is_merged_in_order_and_the_environment_is_exact() {
    let (output, status) = output_of("echo a; echo b >&2; echo c; env | sed 's/=.*//' | sort | tr '\\n' ' '").await;
    assert_eq!(output, "a\nb\nc\nAGENTD_CALL ONLY PATH PWD SHLVL _ ");
    assert!(status.success());
}

#[tokio::test]
async fn there_is_no_terminal_and_no_input() {
    let (output, _) = output_of(
        "cat; read x || echo eof; (: < /dev/tty) 2>/dev/null || echo no tty; ps -o sid= -p $$ | tr -d ' '; echo $$",
    )
    .await;
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(&lines[..2], ["eof", "no tty"]);
    if lines.len() == 4 {
        assert_eq!(lines[2], lines[3], "leads its session");
    }
}

#[tokio::test]
async fn no_file_is_left_open_and_signals_are_as_new() {
    let (output, _) = output_of("ls /proc/self/fd; grep -E 'Sig(Ign|Blk)' /proc/self/status").await;
    // 3 is the folder that ls reads. The C library's posix_spawn ignores its two private signals for the child.
    let output = output.replace("180000000", "000000000");
    assert_eq!(output, "0\n1\n2\n3\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

#[tokio::test]
async fn limits_are_restored() {
    let spawner = Spawner::new(SpawnerOptions { nofile: Some((100, 200)), ..SpawnerOptions::default() }).unwrap();
    let mut running = spawner.spawn(command("ulimit -Sn; ulimit -Hn")).await.unwrap();
    let mut output = String::new();
    running.output.read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "100\n200\n");
}

#[tokio::test]
async fn failures_are_told_apart() {
    let spawner = spawner();
    let mut no_folder = command("true");
    no_folder.cwd = PathBuf::from("/nonexistent/folder");
    let error = spawner.spawn(no_folder).await.unwrap_err();
    assert!(matches!(&error, SpawnError::WorkingDirectory { source, .. } if source.kind() == io::ErrorKind::NotFound));

    for (program, kind) in [
        ("/nonexistent/program", io::ErrorKind::NotFound),
        ("no-such-program", io::ErrorKind::NotFound),
        ("/etc/passwd", io::ErrorKind::PermissionDenied),
    ] {
        let mut command = command("");
        command.argv = vec![program.to_owned()];
        let error = spawner.spawn(command).await.unwrap_err();
        assert!(matches!(&error, SpawnError::Program { source, .. } if source.kind() == kind), "{error:?}");
    }

    let mut too_long = command("");
    too_long.argv[2] = "x".repeat(200_000);
    let error = spawner.spawn(too_long).await.unwrap_err();
    assert!(
        matches!(&error, SpawnError::Program { source, .. } if source.kind() == io::ErrorKind::ArgumentListTooLong)
    );

    let no_helper = Spawner::new(SpawnerOptions { exe: PathBuf::from("/nonexistent"), nofile: None }).unwrap();
    assert!(matches!(no_helper.spawn(command("true")).await, Err(SpawnError::Start(_))));
    // A binary that is no helper writes its complaint to stderr.
    let other = Spawner::new(SpawnerOptions { exe: PathBuf::from("/bin/ls"), nofile: None }).unwrap();
    assert!(matches!(other.spawn(command("true")).await, Err(SpawnError::Helper(_))));
}

#[tokio::test]
async fn a_large_environment_arrives() {
    let mut big = command("echo ${#BIG}");
    big.env.push(("BIG".to_owned(), "é".repeat(50_000)));
    big.env.push(("BIG2".to_owned(), "x".repeat(100_000)));
    let mut running = spawner().spawn(big).await.unwrap();
    let mut output = String::new();
    running.output.read_to_string(&mut output).await.unwrap();
    assert!(["50000\n", "100000\n"].contains(&output.as_str()), "{output}");
}

#[tokio::test]
async fn exit_codes_and_signals() {
    assert_eq!(output_of("exit 7").await.1.code(), Some(7));
    assert_eq!(output_of("kill -9 $$").await.1.signal(), Some(9));
}

/// Starts a script that makes the file `up`, ends it, and returns how long that took.
async fn end(script: &str) -> (tempfile::TempDir, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(script);
    command.cwd = dir.path().to_owned();
    let mut running = spawner().spawn(command).await.unwrap();
    wait_for(&dir.path().join("up")).await;
    let marker = marker_of(&running);
    let begun = Instant::now();
    running.terminate().await;
    let took = begun.elapsed();
    assert_eq!(alive_with(&marker), 0, "survivors of {script}");
    (dir, took)
}

fn marker_of(running: &Running) -> String {
    let pid = i32::try_from(running.child.id().unwrap()).unwrap();
    Process::read(pid).unwrap().call_marker().unwrap()
}

#[tokio::test]
async fn the_whole_tree_ends_and_no_further_command_runs() {
    for script in [
        "touch up; sleep 30; touch ran",
        "touch up; sleep 30 || touch ran",
        "touch up; sleep 30 | true; touch ran",
        "touch up; (sleep 30; touch ran); touch ran",
        "trap 'touch ran' TERM; touch up; sleep 30; touch ran",
        "bash -c 'touch up; sleep 30; touch ran'; touch ran",
        "for i in 1 2 3; do touch up; sleep 30; touch ran; done",
    ] {
        let (dir, took) = end(script).await;
        assert!(took < Duration::from_secs(1), "{script} took {took:?}");
        assert!(!dir.path().join("ran").exists(), "{script}");
    }
}

#[tokio::test]
async fn programs_get_time_to_clean_up() {
    let (dir, took) =
        end("exec bash -c \"trap 'sleep 0.2; touch cleaned; exit' TERM; touch up; sleep 30 & wait\"").await;
    assert!(dir.path().join("cleaned").exists());
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn what_ignores_the_request_is_killed() {
    for script in [
        "trap '' TERM INT HUP; touch up; while :; do sleep 1; done",
        "(trap '' TERM INT HUP; touch up; while :; do sleep 0.1; done) & wait",
    ] {
        let (_dir, took) = end(script).await;
        assert!(took < TERMINATE_GRACE + Duration::from_secs(1), "{script} took {took:?}");
    }
}

#[tokio::test]
async fn stopped_processes_end() {
    for script in ["touch up; kill -STOP $$; touch ran", "(touch up; kill -STOP $BASHPID; touch ran) & wait"] {
        let (dir, took) = end(script).await;
        assert!(took < TERMINATE_GRACE, "{script} took {took:?}");
        assert!(!dir.path().join("ran").exists(), "{script}");
    }
}

#[tokio::test]
async fn those_that_left_the_group_are_found() {
    let (_dir, took) = end("setsid -f bash -c 'touch up; sleep 30; true'; sleep 30; true").await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let (_dir, took) =
        end("setsid -f bash -c \"trap '' TERM; touch up; while :; do sleep 0.1; done\"; sleep 30; true").await;
    assert!(took < TERMINATE_GRACE + Duration::from_secs(1), "{took:?}");
}

/// Job control makes groups, and programs may drop their environment: the session is still that of the command.
#[tokio::test]
async fn those_that_left_the_group_and_the_marker_are_found_by_their_session() {
    let (dir, _) = end("set -m; env -i /bin/bash -c 'echo $$ > own; touch up; sleep 30; true' & wait; true").await;
    let pid: i32 = std::fs::read_to_string(dir.path().join("own")).unwrap().trim().parse().unwrap();
    let gone_by = Instant::now() + Duration::from_secs(5);
    while Process::read(pid).is_some_and(|process| process.is_alive()) {
        assert!(Instant::now() < gone_by, "still alive");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn wait_until_none(marker: &str) {
    let end = Instant::now() + Duration::from_secs(5);
    while alive_with(marker) > 0 {
        assert!(Instant::now() < end, "still alive");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn dropping_kills_everything() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command("trap '' TERM; sleep 30 & setsid -f sleep 30; touch up; sleep 30; true");
    command.cwd = dir.path().to_owned();
    let running = spawner().spawn(command).await.unwrap();
    wait_for(&dir.path().join("up")).await;
    let marker = marker_of(&running);
    assert!(alive_with(&marker) >= 3);
    drop(running);
    wait_until_none(&marker).await;
}

#[tokio::test]
async fn a_background_process_runs_on_until_the_daemon_ends() {
    let spawner = spawner();
    let mut running = spawner.spawn(command("sleep 30 & echo $!")).await.unwrap();
    let mut pid = [0; 16];
    let count = running.output.read(&mut pid).await.unwrap();
    let pid: i32 = std::str::from_utf8(&pid[..count]).unwrap().trim().parse().unwrap();
    assert!(running.wait().await.unwrap().success());
    drop(running);
    assert!(Process::read(pid).is_some_and(|process| process.is_alive()));
    spawner.end_all().await;
    assert!(Process::read(pid).is_none_or(|process| !process.is_alive()));
}

#[tokio::test]
async fn what_comes_from_a_call_is_known() {
    let (spawner, other) = (spawner(), spawner());
    // A child without the variable, below one that has it.
    let line = format!("env -u {CALL_MARKER} sleep 30 & echo $!; wait");
    let mut running = spawner.spawn(command(&line)).await.unwrap();
    let mut pid = [0; 16];
    let count = running.output.read(&mut pid).await.unwrap();
    let pid: i32 = std::str::from_utf8(&pid[..count]).unwrap().trim().parse().unwrap();
    let below = MetProcess::new(pid);
    assert!(spawner.may_have_started(below).await);
    assert!(!other.may_have_started(below).await, "calls of another daemon are its own business");
    let own = MetProcess::new(i32::try_from(std::process::id()).unwrap());
    assert!(!spawner.may_have_started(own).await);
}

#[tokio::test]
async fn a_process_that_has_ended_may_have_come_from_a_call() {
    let spawner = spawner();
    let mut running = spawner.spawn(command("sleep 30")).await.unwrap();
    let met = MetProcess::new(i32::try_from(running.child.id().unwrap()).unwrap());
    running.terminate().await;
    assert!(running.wait().await.is_ok(), "it is reaped");
    assert!(spawner.may_have_started(met).await);
    assert!(spawner.may_have_started(MetProcess::new(met.pid())).await, "it had ended before it was met");
}

#[tokio::test]
async fn only_leftovers_of_dead_daemons_are_ended() {
    let spawner = spawner();
    let running = spawner.spawn(command("sleep 30; true")).await.unwrap();
    // A process as a daemon of another life would have left it; the id of init is never that of a daemon.
    let mut left = plain_sleep(&format!("{CALL_MARKER}=1-1-0:0:x"));
    crate::exec::group::end_leftovers();
    assert!(!left.wait().unwrap().success());
    assert!(alive_with(&marker_of(&running)) > 0);
}

#[expect(clippy::disallowed_methods, reason = "a process that no spawner knows")]
fn plain_sleep(variable: &str) -> std::process::Child {
    let (name, value) = variable.split_once('=').unwrap();
    std::process::Command::new("sleep").arg("30").env(name, value).spawn().unwrap()
}

#[tokio::test]
async fn the_end_of_the_thread_that_started_a_program_ends_it() {
    // The same mechanism ends programs when the whole daemon is killed: the parent-death signal.
    let command = command("sleep 30; true");
    let policy = ExecPolicy::new(command.argv, command.env, &command.cwd, None, std::process::id());
    let runtime = Handle::current();
    let starter = std::thread::spawn(move || {
        let _context = runtime.enter();
        let mut started = start(Path::new("/proc/self/exe"), &policy, "marker", &Tasks::default()).unwrap();
        runtime.block_on(started.status.read_to_end(&mut Vec::new())).unwrap();
        started.running
    });
    let mut running = tokio::task::spawn_blocking(|| starter.join().unwrap()).await.unwrap();
    let status = tokio::time::timeout(Duration::from_secs(5), running.wait()).await.unwrap().unwrap();
    assert_eq!(status.signal(), Some(9));
}
