//! Which files and folders a call is about, for the gate. Touches the disk.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::context::ToolOutput;
use super::paths::Base;
use super::registry::{ToolInvocation, ToolRegistry};
use super::replace::final_target;
use super::work::Budget;
use crate::permissions::policy::{Access, CheckedCall, EffectClass, Place};

impl ToolRegistry {
    /// Finds what the gate looks at of a call in a session with this working directory and environment. The places are
    /// left out unless they are asked for.
    ///
    /// # Errors
    /// The result that the call gets without having run: the disk does not answer.
    pub async fn check(
        &self,
        invocation: &ToolInvocation,
        cwd: &Path,
        env: &[(String, String)],
        cancel: &CancellationToken,
    ) -> Result<CheckedCall, ToolOutput> {
        let (effect, args) = (invocation.effect(), invocation.arguments().clone());
        let (base, written) = (Base::new(cwd, env), written_path(effect, &args));
        let find = move |_: &_| {
            let places = written.map(|(written, access)| Place { path: find(&base, &written, access), access });
            (canonical(&base.cwd), places.into_iter().collect())
        };
        let (cwd, places) = self.workers().run(&Budget::start(cancel), find).await?;
        Ok(CheckedCall { effect, args, places, cwd })
    }
}

/// Returns the path that a file tool was given; the searching ones take the working directory when they get none.
fn written_path(effect: EffectClass, args: &Value) -> Option<(String, Access)> {
    let access = match effect {
        EffectClass::Read => Access::Read,
        EffectClass::Write => Access::Write,
        EffectClass::Exec | EffectClass::Net => return None,
    };
    Some((args.get("path").and_then(Value::as_str).unwrap_or(".").to_owned(), access))
}

fn find(base: &Base, written: &str, access: Access) -> PathBuf {
    canonical(&match access {
        Access::Read => base.resolve_for_reading(written),
        Access::Write => base.resolve_for_writing(written),
    })
}

/// Returns a path without links, as far as it exists; one that leads nowhere as it is, since no tool gets there either.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    final_target(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use agentd_protocol::message::ToolCall;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn call(tool: &str, args: &Value) -> ToolCall {
        serde_json::from_value(json!({"id": "c", "name": tool, "arguments": args})).unwrap()
    }

    #[tokio::test]
    async fn places_are_where_links_lead() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("work")).unwrap();
        std::fs::create_dir(root.join("out")).unwrap();
        symlink("../out", root.join("work/link")).unwrap();
        symlink("../out/not-there", root.join("work/dangling")).unwrap();
        symlink("work", root.join("alias")).unwrap();
        let env = [("HOME".to_owned(), root.join("out").display().to_string())];
        for (tool, args, expected) in [
            ("write", json!({"path": "new/a", "content": ""}), Some(("work/new/a", Access::Write))),
            ("write", json!({"path": "link/a", "content": ""}), Some(("out/a", Access::Write))),
            ("write", json!({"path": "dangling", "content": ""}), Some(("out/not-there", Access::Write))),
            ("write", json!({"path": "~/a", "content": ""}), Some(("out/a", Access::Write))),
            ("read", json!({"path": "../work/link"}), Some(("out", Access::Read))),
            ("ls", json!({}), Some(("work", Access::Read))),
            ("bash", json!({"command": "ls"}), None),
        ] {
            let (registry, call) = (ToolRegistry::builtin(), call(tool, &args));
            let call = registry.validate(&[tool.to_owned()], &call).unwrap();
            let checked = registry.check(&call, &root.join("alias"), &env, &CancellationToken::new()).await.unwrap();
            let expected = expected.map(|(path, access)| Place { path: root.join(path), access });
            assert_eq!((checked.places.first(), checked.cwd), (expected.as_ref(), root.join("work")), "{tool} {args}");
        }
    }
}
