//! Leaves the one case of a file that was asked for: single values of axes, one variant.
use super::Error;
use super::document::{Document, Part, Path};
use super::trial::Trials;
use toml::Value;

/// The document with that case alone. Axes are kept with one value each.
pub fn only(trials: &Trials<'_>, document: Document) -> Result<Document, Error> {
    let name = trials.base_name().to_owned();
    let has = |document: &Document, trials: &Trials<'_>| trials.cases(document).iter().any(|case| case.name == name);
    let mut document = document;
    for path in axes(&document) {
        let Some(values) = document.get(&path).and_then(Value::as_array).cloned() else { continue };
        let single = values.into_iter().map(|value| document.with(&path, Value::Array(vec![value])));
        if let Some(found) = single.into_iter().find(|document| has(document, trials)) {
            document = found;
        }
    }
    let variants: Vec<String> = match document.0.get("variants") {
        Some(Value::Table(table)) => table.keys().cloned().collect(),
        _ => Vec::new(),
    };
    for variant in variants {
        let without = document.without(&[Part::Key("variants".to_owned()), Part::Key(variant)]);
        if has(&without, trials) {
            document = without;
        }
    }
    // It is the case that has failed, so it is not run again: that would cost as much as all the following runs.
    if trials.cases(&document).len() != 1 {
        return Err(Error::NoSuchCase(format!("{name} cannot be told apart from the other cases of its file")));
    }
    Ok(document)
}

/// The places of the axes of a matrix: lists below `matrix`, but for `exclude`.
pub fn axes(document: &Document) -> Vec<Path> {
    let places = document.places().into_iter();
    let is_axis = |path: &Path| {
        let keys = path.iter().all(|part| matches!(part, Part::Key(_)));
        let below = path.len() > 1 && super::document::is_in(path, "matrix");
        let exclude = matches!(path.get(1), Some(Part::Key(key)) if key == "exclude");
        keys && below && !exclude && document.get(path).is_some_and(Value::is_array)
    };
    places.filter(is_axis).collect()
}
