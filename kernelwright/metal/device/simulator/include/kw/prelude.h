// What every kernel is compiled with: the standard library and the entry points' glue, precompiled.
#pragma once

#include <metal_stdlib>

#include "kw/entry.h"
#include "kw/unset.h"
