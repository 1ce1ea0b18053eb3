//! `models`: what can be asked.

use agentd_protocol::methods::{GetAvailableModels, GetAvailableModelsParams, GetAvailableModelsResult};
use anyhow::Result;

use crate::cli::ModelsArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::link::Link;
use crate::show::clean::one_line;
use crate::show::style::{Style, pad, tokens, width};

/// Runs the verb.
///
/// # Errors
/// There is no such session, or the connection closes.
pub(crate) async fn run(link: &mut Link, console: &mut Console, args: &ModelsArgs) -> Result<Exit> {
    let session_id = match &args.session {
        Some(session) => Some(session.resolve(&link.client, &console.cwd).await?),
        None => None,
    };
    let models = link.call::<GetAvailableModels>(&GetAvailableModelsParams { session_id }).await?;
    if console.json {
        console.json_line(&models)?;
    } else {
        let table = table(&models, console.out_style);
        console.out.write_all(table.as_bytes())?;
        console.out.flush()?;
        for notice in &models.notices {
            console.note(&one_line(notice))?;
        }
        if models.default_model.is_none() {
            console.note("no default model: set a provider's key, or try --model demo")?;
        }
    }
    Ok(Exit::Done)
}

/// Lists models; the one that a new session gets has a star.
fn table(models: &GetAvailableModelsResult, style: Style) -> String {
    let name = |index: usize| {
        let model = &models.models[index];
        one_line(&format!("{}/{}", model.provider, model.id))
    };
    let widest = (0..models.models.len()).map(|index| width(&name(index))).max().unwrap_or(0);
    let mut out = String::new();
    for (index, model) in models.models.iter().enumerate() {
        let name = name(index);
        let star = if models.default_model.as_deref() == Some(&format!("{}/{}", model.provider, model.id)) {
            "*"
        } else {
            " "
        };
        let mut facts = vec![format!("{} tokens", tokens(model.context_window))];
        if model.reasoning {
            facts.push("thinks".to_owned());
        }
        if model.input.iter().any(|kind| kind == "image") {
            facts.push("sees images".to_owned());
        }
        if model.cost.input > 0.0 || model.cost.output > 0.0 {
            facts.push(format!("${}/{} per M", model.cost.input, model.cost.output));
        }
        let facts = style.dim(&facts.join(", "));
        out.push_str(&format!("{star} {}  {facts}\n", style.bold(&pad(&name, widest))));
    }
    out
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_default_has_a_star() {
        let model = |id: &str, reasoning: bool, cost: f64| {
            json!({"id": id, "name": id, "api": "a", "provider": "p", "baseUrl": "", "reasoning": reasoning,
                "input": if reasoning { vec!["text", "image"] } else { vec!["text"] },
                "cost": {"input": cost, "output": cost}, "contextWindow": 128_000, "maxTokens": 1})
        };
        let models = json!({"models": [model("big", true, 1.5), model("s", false, 0.0)], "defaultModel": "p/s"});
        let models = serde_json::from_value(models).expect("models");
        let expected = "  p/big  128k tokens, thinks, sees images, $1.5/1.5 per M\n* p/s    128k tokens\n";
        assert_eq!(table(&models, Style::default()), expected);
    }
}
