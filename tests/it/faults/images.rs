//! Images: whatever is read or sent, the session goes on. The model server is as strict about images as a provider.

use image::ImageFormat;
use serde_json::{Value, json};

use super::pictures::{animation, block, bomb, file, noise, plain, size};
use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

fn read(path: &str) -> Value {
    json!({"blocks": [{"tool": "read", "args": {"path": path}}]})
}

/// Results of the tool calls among events.
fn results(events: &[Value]) -> Vec<&Value> {
    let ends = events.iter().filter(|event| event["event"]["type"] == "tool_execution_end");
    ends.map(|event| &event["event"]["result"]["content"]).collect()
}

fn image_parts(request: &Value) -> usize {
    request.to_string().matches("\"image_url\":{").count()
}

/// A file's name and content, and the size of the image that the model gets of it.
type Sample = (&'static str, Vec<u8>, Option<(u32, u32)>);

#[tokio::test]
async fn b122_no_image_that_is_read_bricks_the_session() {
    let large = noise(1200, 1200);
    let photo = file(plain(1200, 900), ImageFormat::Jpeg);
    let files: &[Sample] = &[
        ("wide.png", file(plain(9000, 100), ImageFormat::Png), Some((2000, 22))),
        ("big.png", file(large, ImageFormat::Png), Some((1200, 1200))),
        ("moving.gif", animation(), Some((8, 8))),
        ("map.bmp", file(plain(30, 20), ImageFormat::Bmp), Some((30, 20))),
        ("named.txt", file(plain(30, 20), ImageFormat::WebP), Some((30, 20))),
        ("empty.png", Vec::new(), None),
        ("text.png", b"only a text".to_vec(), None),
        ("cut.jpg", photo[..photo.len() / 2].to_vec(), None),
        ("bomb.png", bomb(30_000), None),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec(), None),
    ];
    let server = ModelServer::replies(json!([]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/thinker").await;
    for (name, content, expected) in files {
        daemon.home().write(name, content);
        server.push(read(name));
        server.push(json!({"text": "seen"}));
        let events = client.run("look").await;
        assert_eq!(events.last().unwrap()["event"]["reason"], "done", "{name}");
        let blocks = results(&events)[0].as_array().unwrap();
        assert_eq!(blocks.get(1).map(size), *expected, "{name}: {}", blocks[0]);
    }
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    client.ok("attach", json!({"sessionId": session})).await;
    server.push(json!({"text": "still here"}));
    let events = client.run("go on").await;
    assert_eq!(events.last().unwrap()["event"]["reason"], "done");
    let last = server.requests().pop().unwrap();
    assert_eq!(image_parts(&last.body), 5);
}

#[tokio::test]
async fn b122_many_screenshots_stay_within_the_limit_for_many() {
    let server = ModelServer::replies(json!([]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/thinker").await;
    daemon.home().write("shot.png", file(plain(1170, 2532), ImageFormat::Png));
    // As high, but not as wide: what counts is the longest side, and without optimisation pixels take their time.
    daemon.home().write("strip.png", file(plain(117, 2532), ImageFormat::Png));
    let paths = std::iter::once("shot.png").chain(std::iter::repeat_n("strip.png", 24));
    let reads: Vec<_> = paths.map(|path| json!({"tool": "read", "args": {"path": path}})).collect();
    server.push(json!({"blocks": reads}));
    server.push(json!({"text": "seen"}));
    let events = client.run("look").await;
    assert_eq!(events.last().unwrap()["event"]["reason"], "done");
    assert_eq!(image_parts(&server.requests()[1].body), 25);
}

#[tokio::test]
async fn b174_images_in_queued_messages_are_sent_small_and_without_an_empty_text() {
    let server = ModelServer::replies(json!([
        {"text": "abcdef", "chunk": 2, "gates": {"2": "go"}}, {"text": "steered"}, {"text": "followed"},
    ]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/thinker").await;
    client.ok("prompt", json!({"message": "one"})).await;
    let photo = block(&file(plain(4000, 3000), ImageFormat::Jpeg), "image/jpeg");
    let small = block(&file(plain(9, 9), ImageFormat::Png), "image/png");
    let steer = client.ok("steer", json!({"message": "", "images": [photo]})).await;
    let follow = client.ok("follow_up", json!({"message": "", "images": [small]})).await;
    assert_eq!((&steer["disposition"], &follow["disposition"]), (&json!("queued"), &json!("queued")));
    server.release("go");
    client.events_until("agent_settled").await;
    assert_eq!(client.ok("get_state", json!({})).await["pendingMessageCount"], 0);
    let stored = user_contents(daemon.home());
    assert_eq!(size(&stored[1][1]), (2000, 1500));
    let note =
        "[Image: original 4000x3000, displayed at 2000x1500. Multiply coordinates by 2.00 to map to original image.]";
    assert_eq!(stored[1][0], json!({"type": "text", "text": note}));
    assert_eq!(stored[2], json!([small]));
    assert_eq!(image_parts(&server.requests()[2].body), 2);
}

/// Contents of the stored user messages.
fn user_contents(home: &Home) -> Vec<Value> {
    let lines = home.only_session().into_iter().filter(|line| line["message"]["role"] == "user");
    lines.map(|line| line["message"]["content"].clone()).collect()
}

#[tokio::test]
async fn a_message_with_a_broken_image_is_refused_before_anything_is_written() {
    let server = ModelServer::replies(json!([{"text": "fine"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/thinker").await;
    let photo = file(plain(90, 90), ImageFormat::Jpeg);
    for (block, why) in [
        (json!({"type": "image", "data": "%%%", "mimeType": "image/png"}), "base64"),
        (block(b"<svg/>", "image/svg+xml"), "not a PNG"),
        (block(&photo[..photo.len() / 2], "image/jpeg"), "damaged"),
        (block(&bomb(30_000), "image/png"), "megapixels"),
        (json!({"type": "text", "text": "x"}), "image block"),
    ] {
        for method in ["prompt", "steer", "follow_up"] {
            let error = client.err(method, json!({"message": "see", "images": [block]})).await;
            assert_eq!((error.code, &error.data["param"]), (-32602, &json!("images")), "{method} {why}");
            assert!(error.message.contains(why), "{error:?}");
        }
    }
    assert_eq!(daemon.home().session_files(), [] as [std::path::PathBuf; 0]);
    // One that is only called wrong gets its right name.
    client.ok("prompt", json!({"message": "see", "images": [block(&photo, "image/png")]})).await;
    client.events_until("agent_settled").await;
    assert_eq!(user_contents(daemon.home())[0][1], block(&photo, "image/jpeg"));
}

#[tokio::test]
async fn requests_keep_their_order_behind_a_large_image() {
    let server = ModelServer::replies(json!([{"text": "abcdef", "chunk": 2, "gates": {"2": "never"}}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/thinker").await;
    let photo = block(&file(plain(2100, 1000), ImageFormat::Jpeg), "image/jpeg");
    let prompt = client.request("prompt", json!({"message": "see", "images": [photo]})).await;
    let second = client.request("prompt", json!({"message": "too early"})).await;
    let abort = client.request("abort", json!({})).await;
    assert_eq!(client.answer(prompt).await.unwrap()["disposition"], "started");
    assert_eq!(client.answer(second).await.unwrap_err().kind(), "busy");
    client.answer(abort).await.unwrap();
}

#[tokio::test]
async fn a_model_that_sees_nothing_is_told_so_and_another_one_sees_it_later() {
    let server = ModelServer::replies(json!([{"text": "blind"}, {"text": "seeing"}, {"text": "blind again"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    let small = block(&file(plain(9, 9), ImageFormat::Png), "image/png");
    client.ok("prompt", json!({"message": "see", "images": [small]})).await;
    client.events_until("agent_settled").await;
    for model in ["thinker", "plain"] {
        client.ok("set_model", json!({"provider": "fake", "modelId": model})).await;
        client.run("again").await;
    }
    let requests = server.requests();
    let counts: Vec<_> = requests.iter().map(|request| image_parts(&request.body)).collect();
    assert_eq!(counts, [0, 1, 0]);
    assert!(requests[2].text.contains("(image omitted: model does not support images)"));
}

#[tokio::test]
async fn images_can_be_blocked_by_pis_settings() {
    let server = ModelServer::replies(json!([{"text": "blind"}]));
    let home = Home::with_models(&server);
    std::fs::write(home.pi_agent().join("settings.json"), r#"{"images": {"blockImages": true}}"#).unwrap();
    let daemon = Daemon::start(home);
    let mut client: Client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/thinker").await;
    let small = block(&file(plain(9, 9), ImageFormat::Png), "image/png");
    client.ok("prompt", json!({"message": "see", "images": [small]})).await;
    client.events_until("agent_settled").await;
    assert_eq!(image_parts(&server.requests()[0].body), 0);
}

#[tokio::test]
async fn b122_an_image_that_the_provider_refuses_is_left_out_and_the_run_goes_on() {
    let refusal = json!({"error": {"message": "Could not process image", "type": "invalid_request_error"}});
    let server = ModelServer::replies(json!([
        read("p.png"), {"status": 400, "body": refusal}, {"text": "without it"}, {"text": "next"},
    ]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    daemon.home().write("p.png", file(plain(9, 9), ImageFormat::Png));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/thinker").await;
    let events = client.run("look").await;
    assert_eq!(events.last().unwrap()["event"]["reason"], "done");
    let notice = events.iter().find(|event| event["event"]["type"] == "notice").unwrap();
    assert_eq!(notice["event"]["kind"], "images_left_out");
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    client.ok("attach", json!({"sessionId": session})).await;
    client.run("go on").await;
    let counts: Vec<_> = server.requests().iter().map(|request| image_parts(&request.body)).collect();
    assert_eq!(counts, [0, 1, 0, 0]);
    let kept = daemon.home().only_session().iter().any(|line| line["message"]["content"][1]["type"] == "image");
    assert!(kept, "the file still has it");
}
