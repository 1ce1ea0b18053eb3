//! What pi's `settings.json` says of our keys.

use agentd_protocol::methods::{ConfigFault, ConfigSource, Origin};
use serde_json::Value as Json;

use super::key::Key;
use super::keys::KEYS;
use super::kind::{Kind, Raw};
use super::layer::Layer;

/// Reads the text of the file, which is called `path` in what is told of it. All else in it is none of our business.
pub fn pi_layer(path: &str, text: &str) -> Layer {
    let origin = |line: Option<usize>| Origin {
        source: ConfigSource::Pi,
        file: Some(path.to_owned()),
        line: line.and_then(|line| u32::try_from(line).ok()),
        variable: None,
    };
    let mut layer = Layer::default();
    let text = text.trim_start_matches('\u{feff}');
    match serde_json::from_str::<Json>(text) {
        Ok(json) => {
            for (key, found) in KEYS.iter().filter_map(|key| Some((*key, said(key, &json)?))) {
                layer.take(key, &Raw::of_json(found), origin(None));
            }
        }
        // Only the place is told: the text around it may hold a key.
        Err(error) => layer.faults.push(ConfigFault {
            origin: origin(Some(error.line())),
            key: None,
            message: format!("is no JSON at column {}; nothing of it is used", error.column()),
        }),
    }
    layer
}

/// Returns what pi's settings say of a key. `null` says nothing, and so does 0 of a time limit, as in pi.
fn said<'a>(key: &Key, json: &'a Json) -> Option<&'a Json> {
    let is_limit = matches!(key.kind, Kind::Number { min: 1.., .. });
    let says = |found: &&Json| !(found.is_null() || is_limit && found.as_u64() == Some(0));
    key.pi.iter().filter_map(|pointer| json.pointer(pointer)).find(says)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) -> Vec<String> {
        let layer = pi_layer("/pi/settings.json", text);
        let set: Vec<_> = layer.set.iter().map(|(key, value, _)| (key.name, value.to_string())).collect();
        assert_eq!(set.iter().map(|(key, value)| (*key, value.as_str())).collect::<Vec<_>>(), expected);
        layer.faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_it_names_is_set_and_nothing_else() {
        assert_eq!(check("{}", &[]), [""; 0]);
        assert_eq!(
            check(
                "\u{feff}{\"theme\": \"dark\", \"retry\": {\"maxRetries\": 9, \"enabled\": null}}",
                &[("retry.max_retries", "9")]
            ),
            [""; 0]
        );
        let all = r#"{"retry": {"enabled": false, "maxRetries": 7, "baseDelayMs": 5, "maxAgentDelayMs": 9,
            "provider": {"maxRetryDelayMs": 8}}, "images": {"autoResize": false, "blockImages": true}}"#;
        let expected = [
            ("retry.enabled", "false"),
            ("retry.max_retries", "7"),
            ("retry.base_delay_ms", "5"),
            ("retry.max_delay_ms", "9"),
            ("retry.max_asked_delay_ms", "8"),
            ("images.auto_resize", "false"),
            ("images.block", "true"),
        ];
        assert_eq!(check(all, &expected), [""; 0]);
    }

    #[test]
    fn its_time_limits_mean_two_of_ours() {
        let (first, idle) = ("provider.first_event_timeout_ms", "provider.idle_timeout_ms");
        check(r#"{"httpIdleTimeoutMs": 0}"#, &[]);
        check(r#"{"httpIdleTimeoutMs": 7000}"#, &[(first, "7000"), (idle, "7000")]);
        check(
            r#"{"httpIdleTimeoutMs": 7000, "retry": {"provider": {"timeoutMs": 9000}}}"#,
            &[(first, "9000"), (idle, "7000")],
        );
        check(
            r#"{"httpIdleTimeoutMs": 7000, "retry": {"provider": {"timeoutMs": 0}}}"#,
            &[(first, "7000"), (idle, "7000")],
        );
    }

    #[test]
    fn faults_show_none_of_its_text() {
        let wrong = check(r#"{"retry": {"maxRetries": "sk-CANARY", "enabled": true}}"#, &[("retry.enabled", "true")]);
        assert_eq!(wrong, ["/pi/settings.json: retry.max_retries must be a whole number from 0 to 1000, not text"]);
        let broken = check("{\"a\": \"sk-CANARY\"\n oops", &[]);
        assert_eq!(broken, ["/pi/settings.json:2: is no JSON at column 2; nothing of it is used"]);
    }
}
