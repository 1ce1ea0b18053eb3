use std::os::unix::net::UnixListener;

use super::*;

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("run/agentd.sock")
    }

    fn prepared(&self) -> PathBuf {
        let socket = self.socket();
        prepare_socket_dir(&socket).unwrap();
        socket
    }

    /// Writes a script that stands in for the daemon.
    #[expect(clippy::disallowed_methods, reason = "a test helper")]
    fn program(&self, script: &str) -> PathBuf {
        let path = self.0.path().join("agentd");
        // A shell writes it: were it open for writing in this process, another test's fork could inherit that and
        // make the system refuse to run it ("text file busy").
        let status = Command::new("sh")
            .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 700 "$0""#])
            .args([path.as_os_str(), script.as_ref()])
            .status()
            .unwrap();
        assert!(status.success());
        path
    }
}

#[test]
fn nobody_listens() {
    let dir = Dir::new();
    assert!(matches!(connect(&dir.socket()), Err(ConnectError::NoDaemon { .. })));
}

#[test]
fn a_dead_socket_is_no_daemon() {
    let dir = Dir::new();
    drop(UnixListener::bind(dir.prepared()).unwrap());
    assert!(matches!(connect(&dir.socket()), Err(ConnectError::NoDaemon { .. })));
}

#[test]
fn a_file_is_not_a_socket() {
    let dir = Dir::new();
    std::fs::write(dir.prepared(), "mine").unwrap();
    assert!(matches!(connect(&dir.socket()), Err(ConnectError::NotASocket { .. })));
}

#[test]
fn a_listener_is_reached() {
    let dir = Dir::new();
    let _listener = UnixListener::bind(dir.prepared()).unwrap();
    connect(&dir.socket()).unwrap();
}

#[test]
fn a_full_queue_is_a_daemon_that_does_not_answer() {
    let dir = Dir::new();
    let socket = dir.prepared();
    let fd = socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    socket::bind(fd.as_raw_fd(), &UnixAddr::new(&socket).unwrap()).unwrap();
    socket::listen(&fd, socket::Backlog::new(0).unwrap()).unwrap();
    let mut waiting = Vec::new();
    let error = loop {
        match connect_within(&socket, Duration::from_millis(20)) {
            Ok(stream) => waiting.push(stream),
            Err(error) => break error,
        }
        assert!(waiting.len() < 100);
    };
    assert!(matches!(error, ConnectError::NotAnswering { .. }), "{error}");
}

#[test]
fn a_daemon_that_takes_connections_and_says_nothing_is_named() {
    let dir = Dir::new();
    let socket = dir.prepared();
    let _listener = UnixListener::bind(&socket).unwrap();
    let mut stream = connect(&socket).unwrap();
    let error = introduce(&mut stream, b"{}\n", Duration::from_millis(20)).unwrap_err();
    assert!(is_timeout(&error), "{error}");
    let message = not_answering(&socket, &stream).to_string();
    assert!(message.contains(&format!("`kill -CONT {}`", std::process::id())), "{message}");
}

#[test]
fn a_program_that_fails_is_reported_with_its_status() {
    let dir = Dir::new();
    let error = connect_or_start(&dir.socket(), &dir.program("exit 7")).unwrap_err();
    let ConnectError::StartFailed { status, .. } = &error else { panic!("{error}") };
    assert!(status.contains('7'), "{status}");
}

#[test]
fn a_missing_program_is_named() {
    let dir = Dir::new();
    let error = connect_or_start(&dir.socket(), Path::new("/nonexistent/agentd")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/agentd"), "{error}");
}

#[test]
fn an_open_directory_is_refused() {
    let dir = Dir::new();
    std::fs::set_permissions(dir.0.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = prepare_socket_dir(&dir.0.path().join("agentd.sock")).unwrap_err();
    assert!(error.to_string().contains("chmod 700"), "{error}");
}

#[test]
fn many_clients_start_one_program() {
    let dir = Dir::new();
    let socket = dir.prepared();
    let started = dir.0.path().join("started");
    // The stand-in only notes that it ran; the test listens for it once it has.
    let program = dir.program(&format!("echo x >> {}; exec sleep 20", started.display()));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (socket, program) = (socket.clone(), program.clone());
            std::thread::spawn(move || connect_or_start(&socket, &program).map(drop))
        })
        .collect();
    let deadline = Instant::now() + START_LIMIT;
    while !started.exists() {
        assert!(Instant::now() < deadline, "nobody started the program");
        std::thread::yield_now();
    }
    let _listener = UnixListener::bind(&socket).unwrap();
    for client in clients {
        client.join().unwrap().unwrap();
    }
    assert_eq!(std::fs::read_to_string(&started).unwrap(), "x\n");
}

#[test]
fn a_daemon_that_ends_is_waited_for() {
    let dir = Dir::new();
    let socket = dir.prepared();
    let tries = dir.0.path().join("tries");
    // Two starts find the old daemon's lock still held.
    let program = dir.program(&format!(
        "echo x >> {0}; [ $(wc -l < {0}) -gt 2 ] || exit {EXIT_ALREADY_RUNNING}; exec sleep 20",
        tries.display()
    ));
    let client = {
        let socket = socket.clone();
        std::thread::spawn(move || connect_or_start(&socket, &program).map(drop))
    };
    let deadline = Instant::now() + START_LIMIT;
    while std::fs::read_to_string(&tries).unwrap_or_default().len() < 6 {
        assert!(Instant::now() < deadline, "it was not tried again");
        std::thread::yield_now();
    }
    let _listener = UnixListener::bind(&socket).unwrap();
    client.join().unwrap().unwrap();
}

#[test]
fn program_is_found_beside_then_in_path() {
    let dir = Dir::new();
    let program = dir.program("");
    let nothing = |_: &str| None;
    assert_eq!(find_program(&nothing, Some(&dir.0.path().join("agentctl"))), Some(program.clone()));
    assert_eq!(find_program(&nothing, Some(Path::new("/nonexistent/agentctl"))), None);
    let path =
        |name: &str| (name == "PATH").then(|| OsString::from(format!("rel:/nonexistent:{}", dir.0.path().display())));
    assert_eq!(find_program(&path, None), Some(program));
    let explicit = |name: &str| (name == "AGENTD_BIN").then(|| OsString::from("/opt/agentd"));
    assert_eq!(find_program(&explicit, None), Some(PathBuf::from("/opt/agentd")));
}

/// Answers each connection in turn with the next of `answers`; `None` closes it unread, as the end of a process does.
fn serve(socket: &Path, answers: Vec<Option<&'static str>>) -> std::thread::JoinHandle<Vec<String>> {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let Some(answer) = answer else { continue };
            let mut line = String::new();
            io::BufRead::read_line(&mut io::BufReader::new(&stream), &mut line).unwrap();
            asked.push(line);
            stream.write_all(answer.as_bytes()).unwrap();
        }
        asked
    })
}

fn front() -> FrontParams {
    front_params("test", "1")
}

#[test]
fn opening_introduces_this_process_and_leaves_the_rest_unread() {
    let dir = Dir::new();
    let daemon = serve(&dir.prepared(), vec![Some("{\"jsonrpc\":\"2.0\",\"id\":\"front\",\"result\":{}}\nnext")]);
    let mut stream = open(&dir.socket(), None, &front()).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "next");
    let asked = daemon.join().unwrap();
    let value: serde_json::Value = serde_json::from_str(&asked[0]).unwrap();
    assert_eq!(value["method"], "front");
    assert_eq!(value["params"]["name"], "test");
    assert!(value["params"]["env"]["PATH"].is_string());
}

#[test]
fn a_daemon_that_dies_while_it_is_reached_is_tried_again() {
    let dir = Dir::new();
    let daemon = serve(&dir.prepared(), vec![None, None, Some("{\"id\":\"front\",\"result\":{}}\n")]);
    open(&dir.socket(), None, &front()).unwrap();
    assert_eq!(daemon.join().unwrap().len(), 1);
}

#[test]
fn a_daemon_that_refuses_is_quoted() {
    let dir = Dir::new();
    let _daemon =
        serve(&dir.prepared(), vec![Some("{\"id\":null,\"error\":{\"code\":-32014,\"message\":\"full\"}}\n")]);
    let error = open(&dir.socket(), None, &front()).unwrap_err();
    assert_eq!(error.to_string(), "the daemon refuses this client: full");
}

#[test]
fn something_else_on_the_socket_is_not_spoken_to() {
    let dir = Dir::new();
    let _daemon = serve(&dir.prepared(), vec![Some("220 mail.example\n")]);
    assert!(matches!(open(&dir.socket(), None, &front()), Err(ConnectError::Refused { .. })));
}
