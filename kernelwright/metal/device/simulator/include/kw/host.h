// What tells the machine that compiles: undefined after the standard library, as on no GPU there is
// any. Dates are those of reproducible builds.
#pragma once
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wbuiltin-macro-redefined"
// Where files are that a text may name, `msl/include.py` writes the answer in their place.
#undef __has_include
#define __has_include(file) 0
#undef __has_include_next
#define __has_include_next(file) 0
#undef __has_embed
#define __has_embed(...) 0
#undef __BASE_FILE__
#define __BASE_FILE__ "source"
#undef __DATE__
#define __DATE__ "Jan  1 1970"
#undef __TIME__
#define __TIME__ "00:00:00"
#undef __TIMESTAMP__
#define __TIMESTAMP__ "Thu Jan  1 00:00:00 1970"
// Metal 4 is C++17, which the standard library is not; `msl/language.py` has what Metal 3 defines.
#undef __cplusplus
#define __cplusplus 201703L
#undef __cpp_constexpr
#define __cpp_constexpr 201603L
#undef __cpp_generic_lambdas
#define __cpp_generic_lambdas 201304L
#undef __cpp_init_captures
#define __cpp_init_captures 201304L
#undef __cpp_range_based_for
#define __cpp_range_based_for 201603L
#undef __cpp_aggregate_paren_init
#undef __cpp_auto_cast
#undef __cpp_concepts
#undef __cpp_conditional_explicit
#undef __cpp_consteval
#undef __cpp_constexpr_dynamic_alloc
#undef __cpp_constinit
#undef __cpp_designated_initializers
#undef __cpp_explicit_this_parameter
#undef __cpp_if_consteval
#undef __cpp_impl_coroutine
#undef __cpp_impl_three_way_comparison
#undef __cpp_implicit_move
#undef __cpp_modules
#undef __cpp_multidimensional_subscript
#undef __cpp_size_t_suffix
#undef __cpp_using_enum
#undef SYCL_LANGUAGE_VERSION
#undef __SYCL_DEVICE_ONLY__
#undef __OPENCL_MEMORY_SCOPE_DEVICE
#undef __OPENCL_MEMORY_SCOPE_SUB_GROUP
#undef __OPENCL_MEMORY_SCOPE_WORK_GROUP
#undef __OPENCL_MEMORY_SCOPE_WORK_ITEM
#undef __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES
#pragma clang diagnostic pop

// Whatever clang predefines for one of the machines that the simulator runs on and not for another.
#undef __AARCH64EL__
#undef __AARCH64_CMODEL_SMALL__
#undef __AARCH64_SIMD__
#undef __ARM64_ARCH_8__
#undef __ARM_64BIT_STATE
#undef __ARM_ACLE
#undef __ARM_ACLE_VERSION
#undef __ARM_ALIGN_MAX_STACK_PWR
#undef __ARM_ARCH
#undef __ARM_ARCH_ISA_A64
#undef __ARM_ARCH_PROFILE
#undef __ARM_FEATURE_ATOMICS
#undef __ARM_FEATURE_CLZ
#undef __ARM_FEATURE_CRC32
#undef __ARM_FEATURE_DIRECTED_ROUNDING
#undef __ARM_FEATURE_DIV
#undef __ARM_FEATURE_FMA
#undef __ARM_FEATURE_FP16_SCALAR_ARITHMETIC
#undef __ARM_FEATURE_FP16_VECTOR_ARITHMETIC
#undef __ARM_FEATURE_IDIV
#undef __ARM_FEATURE_LDREX
#undef __ARM_FEATURE_NUMERIC_MAXMIN
#undef __ARM_FEATURE_QRDMX
#undef __ARM_FEATURE_UNALIGNED
#undef __ARM_FP
#undef __ARM_FP16_ARGS
#undef __ARM_FP16_FORMAT_IEEE
#undef __ARM_NEON
#undef __ARM_NEON_FP
#undef __ARM_NEON_SVE_BRIDGE
#undef __ARM_NEON__
#undef __ARM_PCS_AAPCS64
#undef __ARM_PREFETCH_RANGE
#undef __ARM_SIZEOF_MINIMAL_ENUM
#undef __ARM_SIZEOF_WCHAR_T
#undef __ARM_STATE_ZA
#undef __ARM_STATE_ZT0
#undef __AVX2__
#undef __AVX__
#undef __BMI2__
#undef __BMI__
#undef __CHAR_UNSIGNED__
#undef __CRC32__
#undef __ELF__
#undef __F16C__
#undef __FLOAT128__
#undef __FMA__
#undef __FP_FAST_FMA
#undef __FP_FAST_FMAF
#undef __FUNCTION_MULTI_VERSIONING_SUPPORT_LEVEL
#undef __FXSR__
#undef __HAVE_FUNCTION_MULTI_VERSIONING
#undef __LAHF_SAHF__
#undef __LZCNT__
#undef __MMX__
#undef __MOVBE__
#undef __NO_MATH_ERRNO__
#undef __NO_MATH_INLINES
#undef __PIE__
#undef __POPCNT__
#undef __REGISTER_PREFIX__
#undef __SEG_FS
#undef __SEG_GS
#undef __SIZEOF_FLOAT128__
#undef __SSE2_MATH__
#undef __SSE2__
#undef __SSE3__
#undef __SSE4_1__
#undef __SSE4_2__
#undef __SSE_MATH__
#undef __SSE__
#undef __SSP__
#undef __SSSE3__
#undef __STDC_NO_THREADS__
#undef __WCHAR_UNSIGNED__
#undef __WINT_UNSIGNED__
#undef __XSAVE__
#undef __aarch64__
#undef __amd64
#undef __amd64__
#undef __arm64
#undef __arm64__
#undef __code_model_small__
#undef __gnu_linux__
#undef __linux
#undef __linux__
#undef __pie__
#undef __seg_fs
#undef __seg_gs
#undef __unix
#undef __unix__
#undef __x86_64
#undef __x86_64__
