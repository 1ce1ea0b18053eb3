//! Requests to the model, in one spelling for both programs.

use serde_json::{Value, json};

use super::canonical::Names;
use super::compare::Kinded;

/// Returns what of a request is compared.
pub(super) fn step(request: &Value, names: &Names) -> Kinded {
    let mut body = request["body"].clone();
    let is_chat = request["path"].as_str().is_some_and(|path| path.contains("/chat/completions"));
    for message in body["messages"].as_array_mut().into_iter().flatten() {
        if message["role"] == "system" {
            message["content"] = json!("<system prompt>");
        }
        if let Some(text) = only_text(message).filter(|_| is_chat) {
            message["content"] = json!(text);
        }
    }
    for part in body.get_mut("system").and_then(Value::as_array_mut).into_iter().flatten() {
        part["text"] = json!("<system prompt>");
    }
    ("request".to_owned(), names.rewrite(&json!({"path": request["path"], "body": body})))
}

/// Returns the text of a user message that has nothing else. pi sends it as a list of one part, agentd as a string,
/// which is all that the chat templates of local servers know.
fn only_text(message: &Value) -> Option<String> {
    let parts = message["content"].as_array().filter(|_| message["role"] == "user")?;
    let texts = parts.iter().map(|part| part["text"].as_str().filter(|_| part["type"] == "text"));
    Some(texts.collect::<Option<Vec<_>>>()?.join("\n"))
}
