//! Values, precedence, and limits of expressions.
use super::*;

struct Fixed;

impl Scope for Fixed {
    fn name(&self, name: &str) -> Result<Value, EvalError> {
        match name {
            "rank" => Ok(Value::Int(3)),
            "n" => Ok(Value::Int(4)),
            "half" => Ok(Value::Float(0.5)),
            _ => Err(EvalError(format!("no `{name}`"))),
        }
    }
    fn element(&self, buffer: &str, index: i128) -> Result<Value, EvalError> {
        match (buffer, usize::try_from(index).ok().and_then(|k| [10, 20, 30].get(k))) {
            ("x", Some(v)) => Ok(Value::Int(*v)),
            _ => Err(EvalError(format!("no element {index}"))),
        }
    }
    fn same(&self, a: &str, b: &str) -> Result<bool, EvalError> {
        Ok(a == b)
    }
}

fn value(text: &str, mode: Mode) -> Result<Value, String> {
    let parsed = parse(text).map_err(|e| e.message)?;
    parsed.expr.eval(&Fixed, mode).map_err(|e| e.0)
}

#[test]
fn whole_arithmetic() {
    for (text, wanted) in [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-2 ^ 2", -4),
        ("2 ^ 3 ^ 2", 512),
        ("2 ^ -0", 1),
        ("-7 / 2", -3),
        ("7 / -2", -3),
        ("-7 % 3", 2),
        ("7 % -3", -2),
        ("-6 % 3", 0),
        ("-rank % n", 1),
        ("2 * -3", -6),
        ("- - 3", 3),
        ("10 - 4 - 3", 3),
        ("100 / 10 / 5", 2),
        ("7 % 4 * 2", 6),
        ("rank / 2", 1),
        ("floor(rank / 2)", 1),
        ("floor(half * 5)", 2),
        ("ceil(half * 5) / 2", 1),
        ("1 + 1 == 2", 1),
        ("1 < 2", 1),
        ("rank != 3", 0),
        ("(0 < rank) * (rank < n)", 1),
        ("if(rank > 2, 10, 1 / 0)", 10),
        ("if(0, 1 / 0, 7)", 7),
        ("min(3, 1, 2)", 1),
        ("max(3, x[1], 2)", 20),
        ("abs(-5)", 5),
        ("x[rank - 1]", 30),
        ("same(a, a)", 1),
        ("0 ^ 99999999999999999999", 0),
        ("-1 ^ 3", -1),
        ("(-1) ^ 99999999999", -1),
        ("1_000 + 1", 1001),
        ("170141183460469231731687303715884105727", i128::MAX),
        ("3 % 170141183460469231731687303715884105727", 3),
    ] {
        assert_eq!(value(text, Mode::Whole), Ok(Value::Int(wanted)), "{text}");
    }
}

#[test]
fn floating_arithmetic() {
    for (text, wanted) in [
        ("rank / 2", 1.5),
        ("floor(rank / 2)", 1.0),
        ("2 ^ -1", 0.5),
        ("-7 % 3", 2.0),
        ("5.5 % -2", -0.5),
        ("1 / 0", f64::INFINITY),
        ("-inf", f64::NEG_INFINITY),
        ("sqrt(16)", 4.0),
        ("exp(0) + ln(1) + log2(8)", 4.0),
        ("sin(0) + cos(0)", 1.0),
        ("x[5 / 2]", 30.0),
        ("1e3 + .5", 1000.5),
        ("if(nan, 1, 2)", 1.0),
    ] {
        assert_eq!(value(text, Mode::Float), Ok(Value::Float(wanted)), "{text}");
    }
    assert!(matches!(value("min(nan, 1)", Mode::Float), Ok(Value::Float(v)) if v.is_nan()));
    // A number with a fraction makes an operation a floating one, but a whole number is needed too.
    assert_eq!(value("rank * 0.5", Mode::Whole), Ok(Value::Float(1.5)));
    assert_eq!(parse("rank * 2.0").map(|p| p.expr.eval_int(&Fixed)), Ok(Ok(6)));
    assert!(matches!(parse("rank * 0.5").map(|p| p.expr.eval_int(&Fixed)), Ok(Err(_))));
}

#[test]
fn closeness() {
    let far = "170141183460469231731687303715884105727";
    for (text, wanted) in [
        ("close(1, 2, 1)", true),
        ("close(2, 1, 1)", true),
        ("close(1, 3, 1)", false),
        ("close(rank, 3, 0)", true),
        ("close(1.0, 1.25, 0.25)", true),
        ("close(1.0, 1.25, 0.249)", false),
        ("close(x[1], 20.5, half)", true),
        ("close(1, 1, -1)", false),
        ("close(0.0, -0.0, 0)", true),
        ("close(1, 1, nan)", false),
        ("close(nan, nan, 1)", false),
        ("close(nan, nan, inf)", false),
        ("close(1, nan, inf)", false),
        ("close(inf, inf, 0)", true),
        ("close(-inf, -inf, inf)", true),
        ("close(inf, inf, -1)", false),
        ("close(inf, inf, nan)", false),
        ("close(inf, -inf, inf)", false),
        // A tolerance relative to an infinity does not make every number close to it.
        ("close(1, inf, 0.01 * inf)", false),
        ("close(1, 2, inf)", true),
        ("close(1e308, -1e308, 1e308)", false),
    ] {
        for mode in [Mode::Whole, Mode::Float] {
            let found = value(text, mode).map(Value::truth);
            assert_eq!(found, Ok(wanted), "{text}, {mode:?}");
        }
    }
    // Whole numbers are compared as such where they are computed as such.
    assert_eq!(value(&format!("close({far}, {far} - 1, 0)"), Mode::Whole), Ok(Value::Int(0)));
    assert_eq!(value(&format!("close({far}, -{far}, {far})"), Mode::Whole), Ok(Value::Int(0)));
    assert_eq!(value(&format!("close({far}, -{far}, 1e39)"), Mode::Whole), Ok(Value::Int(1)));
    assert_eq!(
        value("close(1, 2)", Mode::Float),
        Err("`close` takes three arguments: a value, another value, the largest difference".into())
    );
}

/// The block evaluator agrees with [`Expr::eval`] for every element.
#[test]
fn closeness_of_blocks() {
    struct Element(u64);
    impl Scope for Element {
        fn name(&self, name: &str) -> Result<Value, EvalError> {
            if name == "i" { Ok(Value::Int(self.0.into())) } else { Fixed.name(name) }
        }
    }
    for (text, period) in [
        ("close(i, 100, 3)", None),
        ("close(i * 0.25, rank, half)", None),
        ("if(close(i % 7, 3, 1), 10, 20)", Some(7)),
        ("close(1 / (i - 5.0), inf, inf)", None),
        ("close((i - 9.0) / (i - 9.0), 1, 0)", None),
        ("close(1, 2, half) + i", None),
    ] {
        let expr = parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).expr;
        for mode in [Mode::Whole, Mode::Float] {
            let compiled = BlockEvaluator::new(&expr, &Fixed, mode).unwrap_or_else(|| panic!("{text} has no blocks"));
            assert_eq!(compiled.period(300), period, "{text}");
            let block = compiled.block(0, 300).unwrap_or_else(|| panic!("{text} has no values"));
            for i in 0..300 {
                let found = match &block {
                    BlockValues::Whole(v) => Value::Int(v[i as usize].into()),
                    BlockValues::Float(v) => Value::Float(v[i as usize]),
                };
                assert_eq!(expr.eval(&Element(i), mode), Ok(found), "{text}, element {i}, {mode:?}");
            }
        }
    }
}

#[test]
fn what_has_no_value() {
    for (text, words) in [
        ("1 / 0", "by zero"),
        ("1 % 0", "by zero"),
        ("0 ^ -1", "by zero"),
        ("2 ^ 127", "128 bits"),
        ("2 ^ 10 ^ 10 ^ 10", "128 bits"),
        ("-(-2 ^ 126 - 2 ^ 126) ", "128 bits"),
        ("2 ^ 126 + 2 ^ 126", "128 bits"),
        ("x[3]", "no element"),
        ("x[-1]", "no element"),
        ("x[nan]", "not a number"),
        ("x[rank / 2.0]", "1.5 is not whole"),
        ("x[1e300]", "128 bits"),
    ] {
        let found = value(text, Mode::Whole).err().unwrap_or_default();
        assert!(found.contains(words), "{text}: {found}");
    }
}

#[test]
fn faults_have_places() {
    for (text, start, end) in [
        ("1 + ", 4, 4),
        ("1 $ 2", 2, 3),
        ("(1", 2, 2),
        ("1)", 1, 2),
        ("foo(1)", 0, 3),
        ("1 < 2 < 3", 6, 7),
        ("ä", 0, 2),
    ] {
        let found = parse(text).err().map(|e| (e.start, e.end));
        assert_eq!(found, Some((start, end)), "{text}");
    }
}

#[test]
fn references() {
    let whole = parse_ref("x").map(|r| (r.name, r.slice));
    assert_eq!(whole, Ok(("x".to_owned(), None)));
    let part = parse_ref("all[8 * t : 8 * t + 8]").ok().and_then(|r| r.slice);
    let texts = part.map(|(a, b)| (a.map(|e| e.text), b.map(|e| e.text)));
    assert_eq!(texts, Some((Some("8 * t".into()), Some("8 * t + 8".into()))));
    let open = parse_ref("x[:]").ok().and_then(|r| r.slice);
    assert_eq!(open, Some((None, None)));
    for bad in ["", "x[", "x[1]", "x[1:2]3", "[1:2]", "x[1:2:3]", "x y"] {
        assert!(parse_ref(bad).is_err(), "{bad}");
    }
}

/// Compared by bits, because 0 equals -0.
fn float_bits(text: &str) -> u64 {
    value(text, Mode::Float).map_or(1, |v| v.as_f64().to_bits())
}

#[test]
fn zeros_keep_their_sign() {
    for text in [
        "-0.0",
        "floor(-0.0)",
        "ceil(-0.0)",
        "ceil(-0.5)",
        "sqrt(-0.0)",
        "-abs(-0.0)",
        "min(0.0, -0.0)",
        "min(-0.0, 0.0)",
        "max(-0.0, -0.0)",
        "-(0 * 1)",
        "if(1, floor(-0.0), 1)",
        "0 * -1",
        "5 % -5",
        "sin(-0.0)",
    ] {
        assert_eq!(float_bits(text), (-0.0f64).to_bits(), "{text}");
    }
    for text in
        ["abs(-0.0)", "max(0.0, -0.0)", "max(-0.0, 0.0)", "min(0.0, 0.0)", "-0.0 % 3", "-0.0 + 0.0", "floor(0.5)"]
    {
        assert_eq!(float_bits(text), 0, "{text}");
    }
    // A whole number has one zero.
    assert_eq!(value("ceil(-0.5)", Mode::Whole), Ok(Value::Int(0)));
}

#[test]
fn only_numbers_are_whole_or_true() {
    for (value, words) in [
        (Value::Float(f64::NAN), "not a number, but a whole number is needed"),
        (Value::Float(f64::INFINITY), "infinite, but a whole number is needed"),
        (Value::Float(f64::NEG_INFINITY), "infinite, but a whole number is needed"),
        (Value::Float(1e39), "1e39 does not fit 128 bits"),
        (Value::Float(-2.9), "-2.9 is not whole, but a whole number is needed"),
    ] {
        assert_eq!(value.to_int().map_err(|e| e.0), Err(words.to_owned()), "{value:?}");
    }
    assert_eq!((Value::Float(-2.0).to_int(), Value::Float(-0.0).to_int()), (Ok(-2), Ok(0)));
    assert!(Value::Float(f64::NAN).to_bool().is_err());
    assert_eq!((Value::Float(-0.0).to_bool(), Value::Float(0.1).to_bool()), (Ok(false), Ok(true)));
}

fn wrapping(text: &str) -> Result<Value, String> {
    parse(text).map_err(|e| e.message)?.expr.eval_wrapping(&Fixed).map_err(|e| e.0)
}

#[test]
fn elements_of_integers_may_leave_128_bits() {
    let u64_max = "18446744073709551615";
    for (text, wanted) in [
        (format!("{u64_max} ^ 2"), Value::Int((u64::MAX as i128).wrapping_mul(u64::MAX as i128))),
        (format!("{u64_max} ^ 2 - {u64_max} ^ 2 + 5"), Value::Int(5)),
        ("2 ^ 128 + 3".into(), Value::Int(3)),
        ("3 ^ 170141183460469231731687303715884105727".into(), Value::Int(odd_power(3))),
        ("-(-2 ^ 126 - 2 ^ 126)".into(), Value::Int(i128::MIN)),
        ("if(rank > 2, 2 ^ 127 + 2 ^ 127, 1 / 0)".into(), Value::Int(0)),
        ("rank * 0.5".into(), Value::Float(1.5)),
        ("7 / 2".into(), Value::Int(3)),
    ] {
        assert_eq!(wrapping(&text), Ok(wanted), "{text}");
    }
    for text in [
        "2 ^ 128 / 2",
        "2 ^ 128 % 3",
        "2 ^ 128 > 1",
        "abs(2 ^ 128)",
        "2 ^ 128 * 0.5",
        "2 ^ (2 ^ 128)",
        "(2 ^ 128) ^ -1",
    ] {
        let found = wrapping(text).err().unwrap_or_default();
        assert!(found.contains("128 bits"), "{text}: {found}");
    }
    assert!(wrapping("1 / 0 + 2 ^ 128").is_err_and(|e| e.contains("by zero")));
}

/// The low bits of `base` to the greatest exponent, by multiplying: `base ^ (2^127 - 1)` is the product of all
/// `base ^ (2^k)`.
fn odd_power(base: i128) -> i128 {
    let (mut power, mut product) = (base, 1i128);
    for _ in 0..127 {
        product = product.wrapping_mul(power);
        power = power.wrapping_mul(power);
    }
    product
}

proptest::proptest! {
    /// Sums, differences and products of any size are right in their low bits.
    #[test]
    fn low_bits_are_those_of_the_number(numbers in proptest::collection::vec((0i128..1 << 100, 0usize..4), 1..12)) {
        let (mut text, mut low) = ("1".to_owned(), 1i128);
        for (number, operator) in numbers {
            (text, low) = match operator {
                0 => (format!("({text} + {number})"), low.wrapping_add(number)),
                1 => (format!("({text} - {number})"), low.wrapping_sub(number)),
                2 => (format!("({text} * {number})"), low.wrapping_mul(number)),
                _ => (format!("-({text})"), low.wrapping_neg()),
            };
        }
        proptest::prop_assert_eq!(wrapping(&text), Ok(Value::Int(low)));
    }
}

#[test]
fn an_assert_computes_whole_numbers_exactly() {
    let holds =
        |text: &str| parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).expr.eval_exact(&Fixed).map(Value::truth);
    let far = "9223372036854775807";
    for (text, wanted) in [
        (format!("{far} == {far} - 1"), false),
        (format!("{far} == {far}.0"), false),
        (format!("{far} < 9223372036854775808.0"), true),
        (format!("9223372036854775808.0 > {far}"), true),
        (format!("{far} + 1 == 9223372036854775808.0"), true),
        (format!("{far} * {far} % 10 == 9"), true),
        (format!("min({far}, {far} - 1) == {far} - 1"), true),
        (format!("min({far}, inf) == {far}"), true),
        (format!("max({far}, 0.5) == {far}"), true),
        (format!("min({far}, inf) == {far} - 1"), false),
        (format!("close({far}, 9223372036854775808.0, 0)"), false),
        (format!("close({far}, 9223372036854775808.0, 1)"), true),
        (format!("close({far}, 0, {far} - 1)"), false),
        ("close(nan, 1, 5)".into(), false),
        ("close(1, 1.5, 0.5)".into(), true),
        ("close(inf, inf, 0)".into(), true),
        ("min(0.0, -0.0) == 0".into(), true),
        ("1 / min(0.0, -0.0) == -inf".into(), true),
        ("1 / max(-0.0, 0.0) == inf".into(), true),
        ("max(nan, 1) == max(nan, 1)".into(), false),
        ("7 / 2 == 3.5".into(), true),
        ("8 / 2 == 4".into(), true),
        ("3 < 3.5".into(), true),
        ("-3 > -3.5".into(), true),
        ("3.5 > 3".into(), true),
        ("2 ^ -1 == 0.5".into(), true),
        ("1 / 0 == inf".into(), true),
        ("0 / 0 == 0 / 0".into(), false),
        ("1 % 0 == 1 % 0".into(), false),
        ("5 < nan".into(), false),
        ("5 != nan".into(), true),
        ("5 < inf".into(), true),
        ("5 > -inf".into(), true),
        // Beyond 128 bits it continues in f64, as it does with any number that is not whole.
        ("2 ^ 200 == 2.0 ^ 200".into(), true),
        ("if(rank == 3, 1, 1 / 0)".into(), true),
    ] {
        assert_eq!(holds(&text), Ok(wanted), "{text}");
    }
}
