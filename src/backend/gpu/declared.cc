// Declared ranges against observed ones.
#include "backend/gpu/declared.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace lily::gpu {
namespace {

using Ranges = std::vector<AddressRange>;

void append(Ranges& to, std::span<const Range> from) {
  for (const Range& r : from) {
    const auto begin = reinterpret_cast<std::uintptr_t>(r.address);
    if (r.address != nullptr && r.bytes > 0) to.push_back({begin, begin + r.bytes});
  }
}

// Sorted, with neighbours joined.
Ranges merged(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  Ranges out;
  for (const auto& r : ranges) {
    if (!out.empty() && r.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, r.end);
    } else {
      out.push_back(r);
    }
  }
  return out;
}

// The one of `ranges` (merged) that ends behind an address.
Ranges::const_iterator first_behind(const Ranges& ranges, std::uintptr_t address) {
  return std::partition_point(ranges.begin(), ranges.end(),
                              [&](const auto& r) { return r.end <= address; });
}

bool covers(const Ranges& ranges, const AddressRange& part) {
  const auto r = first_behind(ranges, part.begin);
  return r != ranges.end() && r->begin <= part.begin && part.end <= r->end;
}

bool touches(const Ranges& ranges, const AddressRange& part) {
  const auto r = first_behind(ranges, part.begin);
  return r != ranges.end() && r->begin < part.end;
}

bool is_indirect(std::span<const Range> ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [](const Range& r) {
    return r.address == nullptr && r.bytes == kIndirect.bytes;
  });
}

// All that launches declare, for what kIndirect may not reach.
Ranges everything(const Program& program) {
  Ranges all;
  for (const Launch& launch : program.launches()) {
    append(all, launch.reads);
    append(all, launch.writes);
  }
  return merged(std::move(all));
}

const AddressRange* stranger(std::span<const Range> declared, std::span<const AddressRange> seen,
                             const Ranges& all) {
  Ranges allowed;
  append(allowed, declared);
  allowed = merged(std::move(allowed));
  const bool indirect = is_indirect(declared);
  const auto found = std::find_if(seen.begin(), seen.end(), [&](const AddressRange& part) {
    return !covers(allowed, part) && !(indirect && !touches(all, part));
  });
  return found == seen.end() ? nullptr : &*found;
}

}  // namespace

Result<void> dispatch(Emulator& emulator, const Program& program, std::size_t begin,
                      std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const Launch& launch = program.launches()[i];
    if (i > begin && program.barrier_before(i)) emulator.barrier();
    LILY_RETURN_IF_ERROR(
        emulator.dispatch({launch.kernel, launch.args, launch.grid, launch.threads}));
  }
  return {};
}

std::optional<std::string> undeclared(const Program& program,
                                      std::span<const DispatchRecord> records) {
  const auto launches = program.launches();
  LILY_CHECK(records.size() == launches.size());
  const Ranges all = everything(program);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const auto* read = stranger(launches[i].reads, records[i].reads, all);
    const auto* written = stranger(launches[i].writes, records[i].writes, all);
    if (read == nullptr && written == nullptr) continue;
    const AddressRange& where = written ? *written : *read;
    return fmt::format("launch {} of {}, {}, {} {} bytes at {:#x} that it did not declare", i,
                       launches.size(), launches[i].kernel->name, written ? "writes" : "reads",
                       where.end - where.begin, where.begin);
  }
  return std::nullopt;
}

}  // namespace lily::gpu
