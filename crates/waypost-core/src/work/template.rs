//! Renders templates.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::Variable;

/// Renders a template's body. Every variable needs a value, and every value a variable.
pub fn render(body: &Value, variables: &[Variable], given: &BTreeMap<String, String>) -> Result<Value> {
    if let Some(unknown) = given.keys().find(|name| !variables.iter().any(|variable| variable.name == **name)) {
        let known: Vec<_> = variables.iter().map(|variable| variable.name.as_str()).collect();
        return Err(Error::invalid(format!("the template has no variable {unknown:?}")).hint(if known.is_empty() {
            "it has no variables".to_owned()
        } else {
            format!("it has: {}", known.join(", "))
        }));
    }
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    let mut missing = Vec::new();
    for variable in variables {
        match given.get(&variable.name).or(variable.default.as_ref()) {
            Some(value) => {
                values.insert(&variable.name, value);
            }
            None => missing.push(variable.name.as_str()),
        }
    }
    if !missing.is_empty() {
        return Err(Error::invalid(format!("the template needs a value for {}", missing.join(", ")))
            .hint(format!("--var {}=VALUE", missing[0])));
    }
    fill(body, &values)
}

fn fill(value: &Value, values: &BTreeMap<&str, &str>) -> Result<Value> {
    Ok(match value {
        Value::String(text) => Value::String(fill_text(text, values)?),
        Value::Array(items) => Value::Array(items.iter().map(|item| fill(item, values)).collect::<Result<_>>()?),
        Value::Object(fields) => {
            let filled = fields.iter().map(|(key, value)| Ok((fill_text(key, values)?, fill(value, values)?)));
            Value::Object(filled.collect::<Result<_>>()?)
        }
        other => other.clone(),
    })
}

/// Replaces each `{{name}}` once. Inserted values are not expanded again.
fn fill_text(text: &str, values: &BTreeMap<&str, &str>) -> Result<String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let Some(length) = rest[start + 2..].find("}}") else { break };
        let name = rest[start + 2..start + 2 + length].trim();
        let Some(value) = values.get(name) else {
            return Err(Error::invalid(format!("{{{{{name}}}}} is not a variable of the template")));
        };
        filled += &rest[..start];
        filled += value;
        rest = &rest[start + 4 + length..];
    }
    filled += rest;
    Ok(filled)
}

/// Returns the variables of a body: first the declared ones, then the undeclared ones in order.
pub fn declared(body: &Value, mut variables: Vec<Variable>) -> Vec<Variable> {
    for name in names(body) {
        if !variables.iter().any(|variable| variable.name == name) {
            variables.push(Variable { name, description: None, default: None });
        }
    }
    variables
}

/// Returns the names of all `{{variables}}` in a body, in order.
pub fn names(body: &Value) -> Vec<String> {
    let mut names = Vec::new();
    collect(body, &mut names);
    names
}

fn collect(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            for part in text.split("{{").skip(1) {
                if let Some((name, _)) = part.split_once("}}")
                    && !names.iter().any(|known| known == name.trim())
                {
                    names.push(name.trim().to_owned());
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            collect(&Value::String(key.clone()), names);
            collect(value, names);
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn c11_variables_are_filled_in_once_and_missing_ones_named() {
        let body = json!({ "tasks": [{ "name": "build {{what}}", "files": ["{{ dir }}/a"] }] });
        assert_eq!(names(&body), ["what", "dir"]);
        let variable = |name: &str, default: Option<&str>| Variable {
            name: name.to_owned(),
            description: None,
            default: default.map(str::to_owned),
        };
        let variables = [variable("what", None), variable("dir", Some("src"))];
        let given = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let filled = render(&body, &variables, &given(&[("what", "{{dir}}")])).unwrap();
        assert_eq!(filled, json!({ "tasks": [{ "name": "build {{dir}}", "files": ["src/a"] }] }));
        let error = render(&body, &variables, &given(&[])).unwrap_err();
        assert_eq!(error.to_string(), "the template needs a value for what");
        render(&body, &variables, &given(&[("what", "x"), ("other", "y")])).unwrap_err();
    }
}
