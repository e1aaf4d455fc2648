// The combine functions that compiled kernels find here: see kw/prebuilt.h.
#include <metal_stdlib>

namespace metal {
#define KW_PREBUILT(name, In, Out, ...) \
  extern "C" [[clang::sycl_external]] void KW_PREBUILT_NAME(name)( \
      const unsigned char* in, kw_uint active, unsigned char* out) { \
    kw_exchange<In, Out, __VA_ARGS__>::run(in, active, out); \
  }
#include "kw/prebuilt.h"
}  // namespace metal
