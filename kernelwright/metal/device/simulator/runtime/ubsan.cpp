// What clang's undefined-behaviour checks call; the records below are compiler-rt's ABI
// (compiler-rt/lib/ubsan/ubsan_value.h and ubsan_handlers.h, version 22).
#include "found.h"

using namespace kw;

namespace {

struct SourceLocation {
  const char* file;
  uint32_t line, column;
};

struct TypeDescriptor {
  uint16_t kind;  // 0: integer
  uint16_t info;  // of an integer: log2 of its bits, times two, plus one when signed
  char name[1];
};

struct TypeMismatchData {
  SourceLocation location;
  const TypeDescriptor* type;
  uint8_t log_alignment;
  uint8_t check;
};

struct OutOfBoundsData {
  SourceLocation location;
  const TypeDescriptor* array;
  const TypeDescriptor* index;
};

struct ShiftData {
  SourceLocation location;
  const TypeDescriptor* left;
  const TypeDescriptor* right;
};

struct OverflowData {
  SourceLocation location;
  const TypeDescriptor* type;
};

struct MissingReturnData {
  SourceLocation location;
};

// Integers of up to 64 bits arrive by value, wider ones by address.
int64_t value_of(const TypeDescriptor& type, uint64_t handle) {
  const uint32_t bits = 1u << (type.info >> 1);
  if (bits > 64) return *(const int64_t*)handle;
  if (bits == 64) return (int64_t)handle;
  const uint64_t value = handle & ((1ull << bits) - 1);
  const bool is_negative = (type.info & 1) && (value >> (bits - 1));
  return (int64_t)(is_negative ? value | ~0ull << bits : value);
}

bool contains(const char* text, const char* word) {
  for (; *text != 0; text++) {
    const char *a = text, *b = word;
    while (*b != 0 && *a == *b) a++, b++;
    if (*b == 0) return true;
  }
  return false;
}

// Address spaces are part of a type's name, in OpenCL's words.
Kind array_kind(const TypeDescriptor& array) {
  if (contains(array.name, "__local")) return Kind::THREADGROUP_OUT_OF_BOUNDS;
  if (contains(array.name, "__global") || contains(array.name, "__constant"))
    return Kind::DEVICE_OUT_OF_BOUNDS;
  return Kind::THREAD_OUT_OF_BOUNDS;
}

Report* found_at(Kind kind, const SourceLocation& location) {
  Worker* worker = current;
  if (worker == nullptr || worker->running == nullptr || worker->launch->reports == nullptr)
    return nullptr;
  const uint64_t site = (uint64_t)location.file * 31 + location.line;
  Report* report = found(*worker, kind, site);
  if (report == nullptr) return nullptr;
  report->pc = 0;
  report->file = location.file;
  report->line = location.line;
  report->column = location.column;
  return report;
}

#define PC ((uint64_t)__builtin_return_address(0))

// Of what only the place of the call is known.
Report* found_by_call(Kind kind, uint64_t pc) {
  Worker* worker = current;
  if (worker == nullptr || worker->running == nullptr || worker->launch->reports == nullptr)
    return nullptr;
  return found(*worker, kind, pc);
}

}  // namespace

KW_EXPORT void __ubsan_handle_type_mismatch_v1(TypeMismatchData* data, uint64_t pointer) {
  Report* report = found_at(Kind::MISALIGNED_ACCESS, data->location);
  if (report == nullptr) return;
  locate(*current, *report, pointer);
  report->details[1] = 1ll << data->log_alignment;
  publish(*report);
}

// What copy_alignment.py asks, which clang's checks do not, was answered with no.
KW_EXPORT void kw_misaligned_copy(uint64_t address, uint64_t alignment) {
  Report* report = found_by_call(Kind::MISALIGNED_ACCESS, PC);
  if (report == nullptr) return;
  locate(*current, *report, address);
  report->details[1] = (int64_t)alignment;
  publish(*report);
}

KW_EXPORT void __ubsan_handle_out_of_bounds(OutOfBoundsData* data, uint64_t index) {
  Report* report = found_at(array_kind(*data->array), data->location);
  if (report == nullptr) return;
  report->place = Place::THREAD;
  report->details[1] = value_of(*data->index, index);
  report->details[2] = (int64_t)data->array->name;
  publish(*report);
}

// Through a pointer or reference, of which only the call's place is known.
KW_EXPORT void __ubsan_handle_local_out_of_bounds() {
  Report* report = found_by_call(Kind::THREAD_OUT_OF_BOUNDS, PC);
  if (report == nullptr) return;
  report->place = Place::THREAD;
  publish(*report);
}

KW_EXPORT void __ubsan_handle_shift_out_of_bounds(ShiftData* data, uint64_t, uint64_t right) {
  Report* report = found_at(Kind::SHIFT_OUT_OF_RANGE, data->location);
  if (report == nullptr) return;
  report->details[1] = value_of(*data->right, right);
  report->details[2] = (int64_t)data->left->name;
  publish(*report);
}

KW_EXPORT void __ubsan_handle_divrem_overflow(OverflowData* data, uint64_t left, uint64_t) {
  Report* report = found_at(Kind::DIVISION_BY_ZERO, data->location);
  if (report == nullptr) return;
  report->details[1] = value_of(*data->type, left);
  publish(*report);
}

// A trap follows, which ends the launch.
KW_EXPORT void __ubsan_handle_missing_return(MissingReturnData* data) {
  if (Report* report = found_at(Kind::MISSING_RETURN, data->location)) publish(*report);
}

// Of a vector's elements, which clang does not check.
KW_EXPORT void kw_vector_division(kw_ulong left) {
  Report* report = found_by_call(Kind::DIVISION_BY_ZERO, PC);
  if (report == nullptr) return;
  report->details[1] = (int64_t)left;
  publish(*report);
}

KW_EXPORT void kw_vector_index(kw_ulong index, kw_uint size) {
  Report* report = found_by_call(Kind::THREAD_OUT_OF_BOUNDS, PC);
  if (report == nullptr) return;
  report->place = Place::THREAD;
  report->details[0] = size;
  report->details[1] = (int64_t)index;
  publish(*report);
}

KW_EXPORT void kw_vector_shift(kw_ulong amount, kw_uint bits) {
  Report* report = found_by_call(Kind::SHIFT_OUT_OF_RANGE, PC);
  if (report == nullptr) return;
  report->details[0] = bits;
  report->details[1] = (int64_t)amount;
  publish(*report);
}
