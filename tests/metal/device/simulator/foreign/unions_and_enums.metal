#include <metal_stdlib>
using namespace metal;
union Bits { float f; uint u; };
enum Op { OP_ADD, OP_MUL = 4, OP_MAX };
struct Base { float a; }; struct Derived : Base { float b; Derived() = default; Derived(float x, float y) : b(y) { a = x; } float both() const { return a + b; } friend Derived operator+(Derived p, Derived q) { return Derived(p.a + q.a, p.b + q.b); } };
inline float apply(Op op, float a, float b) { switch (op) { case OP_ADD: return a + b; case OP_MUL: { return a * b; } default: break; } return max(a, b); }
kernel void k(device float* y [[buffer(0)]], constant Op& op [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  Bits b; b.f = i; Derived d = Derived(1, 2) + Derived{3, 4}; const float w[] = { d.a * 2, d.b, -d.both() };
  do { y[i] = apply(op, as_type<float>(b.u), w[i % 3]); } while (false);
  for (auto v : w) y[i] += v;
}
