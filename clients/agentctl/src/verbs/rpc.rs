//! `rpc`: any method, for scripts and for looking around.

use std::io::Read;

use agentd_protocol::client::{Client, ClientError};
use agentd_protocol::methods::{Method, SetKey};
use anyhow::{Context, Result};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::cli::RpcArgs;
use crate::console::Console;
use crate::exit::{Exit, UsageError};
use crate::link::Link;
use crate::show::clean::harmless_json;

/// Reads the parameters before anything is started.
///
/// # Errors
/// They are no JSON.
pub(crate) fn params(args: &RpcArgs) -> Result<Option<Box<RawValue>>> {
    let text = match args.params.as_deref() {
        None => return Ok(None),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text).context("standard input")?;
            text
        }
        Some(_) if args.method == SetKey::NAME => {
            let why = "a key on a command line is seen by others; pipe the parameters in (\"-\"), or use `agentctl auth login`";
            return Err(UsageError::new(why));
        }
        Some(text) => text.to_owned(),
    };
    let raw =
        RawValue::from_string(text).map_err(|error| UsageError::new(format!("the parameters are no JSON: {error}")))?;
    Ok(Some(raw))
}

/// Runs the verb: prints the result as it came.
///
/// # Errors
/// The daemon's error answer, or the end of the connection.
pub(crate) async fn run(
    link: &mut Link,
    console: &mut Console,
    args: &RpcArgs,
    params: Option<Box<RawValue>>,
) -> Result<Exit> {
    let params = match &args.session {
        Some(session) => {
            let session_id = session.resolve(&link.client, &console.cwd).await?;
            Some(with_session(params.as_deref(), session_id.as_str())?)
        }
        None => params,
    };
    let answer = link.keeping_events(call(&link.client.clone(), &args.method, params.as_deref())).await?;
    if console.out_is_terminal && !console.json {
        let value: Value = serde_json::from_str(answer.get())?;
        console.line(&harmless_json(&serde_json::to_string_pretty(&value)?))?;
        console.out.flush()?;
    } else {
        console.raw_json_line(answer.get())?;
    }
    Ok(Exit::Done)
}

async fn call(client: &Client, method: &str, params: Option<&RawValue>) -> Result<Box<RawValue>, ClientError> {
    client.call_raw(method, params).await
}

fn with_session(params: Option<&RawValue>, session_id: &str) -> Result<Box<RawValue>> {
    let mut map: Map<String, Value> = match params {
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|_| UsageError::new("--session needs parameters that are a JSON object"))?,
        None => Map::new(),
    };
    map.insert("sessionId".to_owned(), session_id.into());
    Ok(serde_json::value::to_raw_value(&map)?)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_session_joins_the_parameters() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
        assert_eq!(with_session(None, "s").expect("object").get(), r#"{"sessionId":"s"}"#);
        let joined = with_session(Some(&raw(r#"{"a":1}"#)), "s").expect("object");
        assert_eq!(joined.get(), r#"{"a":1,"sessionId":"s"}"#);
        assert!(with_session(Some(&raw("[1]")), "s").is_err());
    }

    #[test]
    fn parameters_are_checked_first() {
        let args = |params: &str| RpcArgs { method: "m".into(), params: Some(params.into()), session: None };
        assert_eq!(params(&args(r#"{"a": 1}"#)).expect("JSON").expect("some").get(), r#"{"a": 1}"#);
        assert!(params(&args("{a}")).expect_err("none").downcast_ref::<UsageError>().is_some());
    }
}
