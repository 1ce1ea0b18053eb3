//! The tools there are: their definitions, and how a call finds its tool.

use std::pin::Pin;
use std::sync::Arc;

use agentd_protocol::message::{ToolCall, ToolDefinition};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::bash::Bash;
use super::context::{EffectClass, ToolContext, ToolOutput};
use super::edit::Edit;
use super::find::Find;
use super::grep::Grep;
use super::ls::Ls;
use super::paths::Base;
use super::preview::Draft;
use super::read::Read;
use super::schema;
use super::work::{Gate, Workers};
use super::write::Write;

/// A tool of ours.
pub(crate) trait Tool: 'static {
    /// Its arguments; doc comments of the fields are what the model reads about them.
    type Args: JsonSchema + DeserializeOwned + Send;
    /// Name and what the system prompt says about it.
    const USAGE: ToolUsage;
    /// What the model reads about the tool.
    const DESCRIPTION: &'static str;
    /// What it can do to the world.
    const EFFECT: EffectClass;
    /// Whether a provider that can is asked to hold the model to the schema (pi asks for some tools).
    const HOLDS_TO_SCHEMA: bool = true;

    /// Puts other spellings that models are known to use right, before the arguments are checked.
    fn prepare(_arguments: &mut Value) {}

    /// Returns what a person is shown of a call, if that is more than its arguments. Touches the disk.
    ///
    /// # Errors
    /// The result of a call that cannot run.
    fn draft(_args: Self::Args, _base: &Base, _gate: &Gate) -> Result<Option<Draft>, ToolOutput> {
        Ok(None)
    }

    /// Runs a call to its end. Dropping the future ends what it started.
    fn run(args: Self::Args, context: ToolContext, workers: Workers) -> impl Future<Output = ToolOutput> + Send;
}

/// Draws up what a person is shown of a call with these arguments.
pub(super) type Show = fn(Value, &Base, &Gate) -> Result<Option<Draft>, ToolOutput>;
type Run = fn(Value, ToolContext, Workers) -> Pin<Box<dyn Future<Output = ToolOutput> + Send>>;

/// One tool.
struct Entry {
    definition: Arc<ToolDefinition>,
    usage: ToolUsage,
    effect: EffectClass,
    prepare: fn(&mut Value),
    show: Show,
    run: Run,
}

/// What the system prompt says about a tool, besides its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolUsage {
    /// The tool's name.
    pub name: &'static str,
    /// One line: what it is for.
    pub summary: &'static str,
    /// How to use it well.
    pub habits: &'static [&'static str],
}

/// A call whose tool exists and whose arguments fit.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolInvocation {
    index: usize,
    name: &'static str,
    effect: EffectClass,
    arguments: Value,
}

impl ToolInvocation {
    /// Returns the tool's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns what the tool can do to the world.
    pub fn effect(&self) -> EffectClass {
        self.effect
    }

    /// Returns the arguments as the tool gets them: of the right types, unknown keys left out.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }
}

/// All tools. Cheap to clone.
#[derive(Clone)]
pub struct ToolRegistry {
    entries: Arc<[Entry]>,
    workers: Workers,
}

impl ToolRegistry {
    /// Returns the tools that agentd brings along.
    pub fn builtin() -> Self {
        let entries = [
            entry::<Read>(),
            entry::<Bash>(),
            entry::<Edit>(),
            entry::<Write>(),
            entry::<Grep>(),
            entry::<Find>(),
            entry::<Ls>(),
        ];
        Self { entries: entries.into(), workers: Workers::default() }
    }

    /// Returns one made-up tool.
    #[cfg(test)]
    pub(crate) fn only<T: Tool>() -> Self {
        Self { entries: [entry::<T>()].into(), workers: Workers::default() }
    }

    /// Returns the names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.usage.name)
    }

    /// Returns the names of the tools of a session that asks for none in particular.
    pub fn default_names() -> &'static [&'static str] {
        &["read", "bash", "edit", "write"]
    }

    /// Returns the definitions of the named tools, in the order of the registry; unknown names are left out.
    pub fn definitions(&self, names: &[String]) -> Vec<Arc<ToolDefinition>> {
        self.named(names).map(|entry| Arc::clone(&entry.definition)).collect()
    }

    /// Returns what the system prompt says about the named tools, in the order of the registry.
    pub fn usages(&self, names: &[String]) -> Vec<ToolUsage> {
        self.named(names).map(|entry| entry.usage).collect()
    }

    fn named<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(|entry| names.iter().any(|name| name == entry.usage.name))
    }

    /// Returns what draws up what a person is shown of a call.
    pub(super) fn show_of(&self, invocation: &ToolInvocation) -> Option<Show> {
        self.entries.get(invocation.index).map(|entry| entry.show)
    }

    /// Returns what runs the tools' blocking work.
    pub(super) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Returns how many workers hung and were abandoned since the start.
    pub fn abandoned(&self) -> u64 {
        self.workers.abandoned()
    }

    /// Finds the tool of a call and makes the arguments fit.
    ///
    /// # Errors
    /// The result that the call gets without having run: the tool is not among `enabled`, or the arguments are broken
    /// or do not fit. The texts are pi's.
    pub fn validate(&self, enabled: &[String], call: &ToolCall) -> Result<ToolInvocation, ToolOutput> {
        let known = |entry: &&Entry| entry.usage.name == call.name && enabled.contains(&call.name);
        let Some((index, entry)) = self.entries.iter().enumerate().find(|(_, entry)| known(entry)) else {
            return Err(ToolOutput::error(format!("Tool {} not found", call.name)));
        };
        if let Some(error) = &call.arguments_error {
            // It holds the raw text already.
            return Err(ToolOutput::error(format!("Invalid arguments for tool \"{}\": {error}", call.name)));
        }
        let mut arguments = call.arguments.clone();
        (entry.prepare)(&mut arguments);
        let arguments = schema::coerce_arguments(&entry.definition.parameters, &arguments)
            .map_err(|problems| unfit(call, &problems))?;
        Ok(ToolInvocation { index, name: entry.usage.name, effect: entry.effect, arguments })
    }

    /// Runs a call to its end. Dropping the future kills what it started.
    pub async fn run(&self, invocation: ToolInvocation, context: ToolContext) -> ToolOutput {
        match self.entries.get(invocation.index) {
            Some(entry) => (entry.run)(invocation.arguments, context, self.workers.clone()).await,
            None => ToolOutput::error(format!("Tool {} not found", invocation.name)),
        }
    }
}

fn unfit(call: &ToolCall, problems: &[schema::Problem]) -> ToolOutput {
    let lines: String = problems.iter().map(|problem| format!("  - {}: {}\n", problem.path, problem.what)).collect();
    let received = match &call.arguments {
        Value::Null => "{}".to_owned(),
        arguments => serde_json::to_string_pretty(arguments).unwrap_or_default(),
    };
    ToolOutput::error(format!(
        "Validation failed for tool \"{}\":\n{lines}\nReceived arguments:\n{received}",
        call.name
    ))
}

fn entry<T: Tool>() -> Entry {
    Entry {
        definition: Arc::new(ToolDefinition {
            name: T::USAGE.name.to_owned(),
            description: T::DESCRIPTION.to_owned(),
            parameters: schema::of::<T::Args>(),
            constrained_sampling: T::HOLDS_TO_SCHEMA.then(|| json!({ "type": "json_schema", "strict": "prefer" })),
        }),
        usage: T::USAGE,
        effect: T::EFFECT,
        prepare: T::prepare,
        show: show_typed::<T>,
        run: |arguments, context, workers| Box::pin(run_typed::<T>(arguments, context, workers)),
    }
}

fn show_typed<T: Tool>(arguments: Value, base: &Base, gate: &Gate) -> Result<Option<Draft>, ToolOutput> {
    match serde_json::from_value(arguments) {
        Ok(args) => T::draft(args, base, gate),
        Err(error) => Err(unfit_type::<T>(&error)),
    }
}

fn unfit_type<T: Tool>(error: &serde_json::Error) -> ToolOutput {
    ToolOutput::error(format!("Validation failed for tool \"{}\": {error}", T::USAGE.name))
}

async fn run_typed<T: Tool>(arguments: Value, context: ToolContext, workers: Workers) -> ToolOutput {
    match serde_json::from_value(arguments) {
        Ok(args) => T::run(args, context, workers).await,
        // The schema was made from the type, so that this needs a fault in the schema.
        Err(error) => unfit_type::<T>(&error),
    }
}

#[cfg(test)]
mod tests;
