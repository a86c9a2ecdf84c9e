//! Lists of ranks and values per rank, as short as the language allows.
use std::fmt::Display;

/// `[0, 1, 3]`.
pub fn numbers<T: Display>(list: &[T]) -> String {
    let texts: Vec<String> = list.iter().map(T::to_string).collect();
    format!("[{}]", texts.join(", "))
}

/// A value if it is the same for all ranks, else the list of them.
pub fn value_per_rank<T: Display + PartialEq>(values: &[T]) -> String {
    match values {
        [first, ..] if values.iter().all(|value| value == first) => first.to_string(),
        _ => numbers(values),
    }
}
