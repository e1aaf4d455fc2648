#include <metal_stdlib>
namespace mine { namespace detail { using namespace metal; template <typename T> using vec4 = vec<T, 4>; inline float3 up(float3 v) { return v.zxy; } } 
inline namespace v1 { enum class Mode : uint { A = 1, B }; constant constexpr Mode kMode = Mode::B; } }
using mine::detail::vec4; using F = float; typedef metal::float2 P;
kernel void k(device F* y [[buffer(0)]], metal::uint3 i [[thread_position_in_grid]]) {
  vec4<float> v(1, 2, 3, 4); metal::float3 u = mine::detail::up(v.xyz); P p(u.x, u.y);
  y[i.x] = metal::dot(u, metal::float3(1)) + p.x + static_cast<uint>(mine::kMode);
}
