// SPDX-License-Identifier: GPL-2.0-only
/* The one place where the tracepoints of trace.h are defined. */
#define CREATE_TRACE_POINTS
#include "trace.h"
