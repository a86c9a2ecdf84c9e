//! Values of communicator configurations (`ncclConfig_t`).

/// The value of a configuration field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum ConfigValue {
    Int(i64),
    Text(String),
}
