//! Objections of an agent to a definition before it runs.

use agent::{Agent, ExternalOptions, Options};
use domain::action::Action;
use domain::id::TenantId;
use domain::job::Definition;
use serde_json::json;

#[test]
fn an_agent_objects_to_what_its_policy_refuses() {
    let external =
        ExternalOptions { enabled: true, allow: vec!["/bin/sh".into()], ..Default::default() };
    let agent = Agent::new(Options { external, ..Options::default() });
    for (action, expected) in [
        (json!({"type": "EXTERNAL", "command": "/bin/sh"}), None),
        (json!({"type": "EXTERNAL", "command": "/usr/bin/id"}), Some("COMMAND_NOT_ALLOWED: ")),
        (
            json!({"type": "EXTERNAL", "command": "/bin/sh", "arguments": ["${secrets.KEY}"]}),
            Some("SECRET_IN_ARGUMENTS: "),
        ),
        (
            json!({"type": "EXTERNAL", "command": "/bin/sh", "environment": {"LD_PRELOAD": "x"}}),
            Some("VARIABLE_NOT_ALLOWED: "),
        ),
        (json!({"type": "HTTP", "endpoint": "https://example.org/hook"}), None),
        (json!({"type": "HTTP", "endpoint": "http://127.0.0.1/"}), Some("TARGET_NOT_ALLOWED: ")),
        (
            json!({"type": "HTTP", "endpoint": "http://localhost:3000/hook"}),
            Some("TARGET_NOT_ALLOWED: "),
        ),
        (
            json!({"type": "HTTP", "endpoint": "https://example.org/", "headers": {"Host": "x"}}),
            Some("HEADER_NOT_ALLOWED: "),
        ),
        (json!({"type": "SQL", "sql": "SELECT 1"}), None),
        (json!({"type": "SQL", "sql": "SELEC missing"}), None),
        (json!({"type": "SQL", "sql": "SELECT 1; COMMIT"}), Some("TRANSACTION_CONTROL: ")),
        (json!({"type": "SQL", "sql": "SELECT $1"}), Some("POSITIONAL_PARAMETER: ")),
        (json!({"type": "NOOP"}), None),
    ] {
        let told = format!("{action}");
        let action: Action = serde_json::from_value(action).unwrap();
        let definition = Definition { action, ..Definition::default() };
        let objection = agent.objection(TenantId::DEFAULT, &definition);
        match expected {
            Some(begin) => {
                assert!(objection.clone().unwrap().starts_with(begin), "{told}: {objection:?}")
            }
            None => assert_eq!(objection, None, "{told}"),
        }
    }
    let disabled = Agent::new(Options::default());
    let action = serde_json::from_value(json!({"type": "EXTERNAL", "command": "/bin/sh"})).unwrap();
    let definition = Definition { action, ..Definition::default() };
    let objection = disabled.objection(TenantId::DEFAULT, &definition).unwrap();
    assert_eq!(
        objection,
        "EXTERNAL_DISABLED: external commands are disabled on this node (external.enabled = false)"
    );
}
