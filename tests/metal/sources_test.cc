// The kernels' text as Metal gets it: whole, each header once, lines where they were.
#include "backend/gpu/metal/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/gpu/kernel.h"
#include "backend/gpu/metal/pipelines.h"

namespace lily::gpu::metal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int count(std::string_view text, std::string_view what) {
  int n = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Sources, IncludesAreFlattenedOnceWithTheirLines) {
  const SourceFile files[] = {{"a.cc", "#include \"a.h\"\n#include \"b.h\"\nlast\n"},
                              {"a.h", "#pragma once\n#include \"b.h\"\nA"},
                              {"b.h", "#pragma once\n#include <metal_stdlib>\nB\n"}};
  EXPECT_EQ(*flatten(files, "a.cc"),
            "#line 1 \"a.cc\"\n#line 1 \"a.h\"\n\n#line 1 \"b.h\"\n\n#include <metal_stdlib>\nB\n"
            "#line 3 \"a.h\"\nA\n#line 2 \"a.cc\"\n#line 3 \"a.cc\"\nlast\n");
}

TEST(Sources, WhatIsNotBundledIsAnErrorOnlyWhereItIsReached) {
  const SourceFile files[] = {{"a.cc", "#if 0\n#include \"cuda.h\"\n#endif\n"}};
  EXPECT_THAT(*flatten(files, "a.cc"),
              HasSubstr("#if 0\n#error \"cuda.h is not for Metal\"\n#endif"));
  EXPECT_THAT(flatten(files, "b.cc").error().message,
              HasSubstr("'b.cc' is not part of this program"));
}

TEST(Sources, EveryKernelIsInTheBundleWithAllItNeeds) {
  for (const Kernel& kernel : kernels()) {
    const auto text = flatten(bundled_sources(), file_of(kernel.name));
    ASSERT_TRUE(text.has_value()) << text.error().message;
    EXPECT_THAT(*text, HasSubstr("KERNEL(" + std::string(kernel.name) + ","));
    EXPECT_THAT(*text, Not(HasSubstr("#include \"")));
    EXPECT_EQ(count(*text, "using namespace metal;"), 1);
    EXPECT_EQ(count(*text, "#define TG threadgroup"), 1);
    // The other front ends, and nothing else, are left out.
    EXPECT_EQ(count(*text, "#error"), 3) << kernel.name;
  }
  EXPECT_EQ(file_of("nothing"), "");
}

}  // namespace
}  // namespace lily::gpu::metal
