//! Contraction: a product and a sum or difference become one operation that rounds once.
//!
//! PTX allows it where neither says its rounding (PTX ISA, 9.7.3 and 9.7.4), and ptxas does it by default (`-fmad`). So the bits that a GPU gives
//! are those of the contracted form. ptxas' rule is not documented; this one gives the instruction counts of its output.
use super::body::Body;
use super::op::{BinaryOp, MulPart, Op, Operation, Source, TernaryOp};
use crate::module::{RegisterId, Type};
use rustc_hash::FxHashMap;

/// Fuses each product with a sum or difference of its type, if nothing else uses it and both are in the same basic block. Returns the
/// number of fused products.
pub fn contract(body: &mut Body) -> usize {
    let (mut uses, mut writes) = (vec![0u32; body.registers.len()], vec![0u32; body.registers.len()]);
    for operation in &body.operations {
        operation.each_read(&mut |register| uses[register.0 as usize] += 1);
        operation.each_write(&mut |register| writes[register.0 as usize] += 1);
    }
    let once = |register: RegisterId| uses[register.0 as usize] == 1 && writes[register.0 as usize] == 1;
    let mut fused = 0;
    for block in body.blocks() {
        // Products of the block that may still be fused, by their registers, and for each register the products that read it.
        let mut products: FxHashMap<RegisterId, usize> = FxHashMap::default();
        let mut readers: FxHashMap<RegisterId, Vec<RegisterId>> = FxHashMap::default();
        for at in block {
            let operation = &body.operations[at];
            if let Some((product, sum)) = fusible(body, operation, &products) {
                body.operations[at] = Operation { guard: None, op: sum };
                body.operations[product] = Operation { guard: None, op: Op::Nothing };
                fused += 1;
            }
            let operation = &body.operations[at];
            // A product whose operands change cannot be computed later.
            operation.each_write(&mut |written| {
                for product in readers.remove(&written).into_iter().flatten() {
                    products.remove(&product);
                }
            });
            if let Operation {
                guard: None,
                op: Op::Binary { op: BinaryOp::Mul(MulPart::Low), ty, says_rounding: false, to: Some(to), .. },
            } = operation
                && is_contracted(*ty)
                && once(*to)
            {
                products.insert(*to, at);
                operation.each_read(&mut |read| readers.entry(read).or_default().push(*to));
            }
        }
    }
    fused
}

fn is_contracted(ty: Type) -> bool {
    matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64)
}

/// The product that a sum or difference can be fused with, and the fused operation.
fn fusible(body: &Body, sum: &Operation, products: &FxHashMap<RegisterId, usize>) -> Option<(usize, Op)> {
    let Operation { guard: None, op: Op::Binary { op, ty, says_rounding: false, to, a, b } } = sum else {
        return None;
    };
    let fused = match op {
        BinaryOp::Add => [TernaryOp::Fma; 2],
        BinaryOp::Sub => [TernaryOp::ProductMinus, TernaryOp::MinusProduct],
        _ => return None,
    };
    [(a, b), (b, a)].into_iter().zip(fused).find_map(|((side, other), op)| {
        let Source::Register(register) = side else { return None };
        let product = *products.get(register)?;
        match &body.operations.get(product)?.op {
            Op::Binary { ty: of, a: x, b: y, .. } if of == ty => {
                let (a, b, c) = (x.clone(), y.clone(), other.clone());
                Some((product, Op::Ternary { op, ty: *ty, to: *to, a, b, c }))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Function;
    use crate::text::{Index, Unit};

    /// The number of fused products, and the kinds of the remaining opcodes.
    fn fused(text: &str) -> (usize, Vec<&'static str>) {
        let registers = ".reg .pred %p<2>;\n.reg .b32 %r<9>;\n.reg .b64 %d<4>;\n";
        let unit = Unit::new("t", format!(".func f() {{\n{registers}{text}\n}}").into()).unwrap();
        let index = Index::of(&unit).unwrap();
        let mut body = Body::of(&unit, &Function::of(&unit, &index.definitions[0]).unwrap());
        assert!(!body.operations.iter().any(|operation| matches!(operation.op, Op::Unknown(_))), "{body:?}");
        let count = contract(&mut body);
        let kind = |operation: &Operation| match operation.op {
            Op::Ternary { op: TernaryOp::Fma, .. } => "fma",
            Op::Ternary { op: TernaryOp::ProductMinus, .. } => "product minus",
            Op::Ternary { op: TernaryOp::MinusProduct, .. } => "minus product",
            Op::Binary { op: BinaryOp::Add, .. } => "add",
            Op::Binary { op: BinaryOp::Mul(_), .. } => "mul",
            Op::Nothing => "nothing",
            _ => "other",
        };
        (count, body.operations.iter().map(kind).collect())
    }

    #[test]
    fn a_product_that_only_a_sum_uses_is_fused() {
        let text = "mul.f16x2 %r1, %r2, %r3;\nadd.f16x2 %r4, %r5, %r1;";
        assert_eq!(fused(text), (1, vec!["nothing", "fma"]));
        let between = "mul.f32 %r1, %r2, %r3;\nmul.f32 %r6, %r7, %r8;\nadd.f32 %r4, %r1, %r6;";
        assert_eq!(fused(between), (1, vec!["nothing", "mul", "fma"]), "a sum takes one of its products");
        let first = "mul.f32 %r1, %r2, %r3;\nsub.f32 %r4, %r1, %r5;";
        assert_eq!(fused(first), (1, vec!["nothing", "product minus"]));
        let second = "mul.f64 %d1, %d2, %d3;\nsub.f64 %d0, %d2, %d1;";
        assert_eq!(fused(second), (1, vec!["nothing", "minus product"]));
    }

    #[test]
    fn what_must_stay_apart_does() {
        for (why, text) in [
            ("it is used twice", "mul.f32 %r1, %r2, %r3;\nadd.f32 %r4, %r1, %r1;"),
            ("the product says its rounding", "mul.rn.f32 %r1, %r2, %r3;\nadd.f32 %r4, %r1, %r5;"),
            ("the sum says its rounding", "mul.f32 %r1, %r2, %r3;\nadd.rn.f32 %r4, %r1, %r5;"),
            ("the difference says its rounding", "mul.f32 %r1, %r2, %r3;\nsub.rn.f32 %r4, %r1, %r5;"),
            ("whole numbers", "mul.lo.s32 %r1, %r2, %r3;\nsub.s32 %r4, %r1, %r5;"),
            ("the types differ", "mul.f16x2 %r1, %r2, %r3;\nadd.bf16x2 %r4, %r1, %r5;"),
            ("they are whole numbers", "mul.lo.s32 %r1, %r2, %r3;\nadd.s32 %r4, %r1, %r5;"),
            ("another block", "mul.f32 %r1, %r2, %r3;\nL: add.f32 %r4, %r1, %r5;\nbra L;"),
            ("a guard", "mul.f32 %r1, %r2, %r3;\n@%p1 add.f32 %r4, %r1, %r5;"),
            ("an operand changes", "mul.f32 %r1, %r2, %r3;\nadd.f32 %r3, %r3, %r6;\nadd.f32 %r4, %r1, %r5;"),
        ] {
            assert_eq!(fused(text).0, 0, "{why}");
        }
    }
}
