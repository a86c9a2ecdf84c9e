//! Functions of other languages, and their counterparts in expressions.

/// Their names and the cure.
const FOREIGN_FUNCTIONS: &[(&[&str], &str)] = &[
    (
        &["isclose", "allclose", "approx", "assert_close", "almost_equal"],
        "write `close(a, b, tol)`: 1 if a and b differ by at most tol",
    ),
    (&["pow"], "power is `^`: `a ^ b`"),
    (&["log"], "the natural logarithm is `ln(x)`, that to base 2 is `log2(x)`"),
    (&["log10"], "write `ln(x) / ln(10)`"),
    (&["round", "rint"], "write `floor(x + 0.5)`"),
    (&["int", "trunc"], "write `floor(x)`; where a whole number is needed, `/` drops the fraction"),
    (&["float"], "leave it out: a number is whole or not as it is needed"),
    (&["mod", "fmod"], "write `a % b`"),
    (&["where", "select", "cond", "iif"], "write `if(condition, a, b)`"),
    (&["equal", "array_equal", "eq"], "write `a == b` for every element, or `same(a, b)` for all bits of two buffers"),
    (
        &["sum", "mean", "norm"],
        "a step adds element `t` in each of its rounds: `{ op = \"map\", expr = \"0\", count = 1, dtype = \"f32\", out = \"s\" }`, then \
         `{ op = \"map\", expr = \"s + x[t] ^ 2\", count = 1, out = \"s\", times = 8 }`; each round rounds to the type of `s`",
    ),
    (
        &["all", "any", "len"],
        "an expression is about one element: an `assert` holds for each of them, and `x[0]` is the first",
    ),
    (&["isnan"], "write `x != x`"),
    (&["isinf"], "write `abs(x) == inf`"),
    (&["pi"], "write the number"),
    (&["tan"], "write `sin(x) / cos(x)`"),
    (&["fabs"], "write `abs(x)`"),
    (&["range", "arange", "linspace"], "`each` is an expression in the index `i` of an element: `each = \"i\"`"),
];

/// Suggests a replacement for a function of another language.
pub(super) fn cure(name: &str) -> Option<&'static str> {
    FOREIGN_FUNCTIONS.iter().find(|(names, _)| names.contains(&name)).map(|(_, cure)| *cure)
}

/// The message for a function that makes one number of all elements.
pub(super) fn over_elements(name: &str) -> Option<String> {
    matches!(name, "sum" | "mean" | "norm").then(|| format!("there is no {name} over elements"))
}
