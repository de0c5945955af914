// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "detect/patterns/verdict.h"
#include "detect/patterns/xid_correlation.h"

namespace slotscope {

// "Xid 79 on GPU 0000:91:00: GPU has fallen off the bus."
std::string DescribeXid(const XidRecord& xid);

// deploy/schemas/xid_correlation_verdict.schema.json
Verdict XidCorrelationVerdict(const XidCorrelation& correlation);

}  // namespace slotscope
