# Every module, nothing linked: what a standard library other than the packages' own can build.
add_custom_target(modules)

# lily_module(NAME [COLD] [DEPS ...] [LIBS ...]): the folder's .cc files as the static library lily_NAME. COLD code is not worth -O3's time.
#   DEPS are other modules (the arrows of docs/ARCHITECTURE.md), LIBS third-party targets that only this module sees.
function(lily_module name)
  cmake_parse_arguments(ARG "COLD" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  add_library(lily_${name} STATIC ${sources})
  if(ARG_COLD)
    target_compile_options(lily_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  target_link_libraries(lily_${name} PUBLIC lily_options PRIVATE ${ARG_LIBS})
  add_dependencies(modules lily_${name})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(lily_${name} PUBLIC lily_${dep})
  endforeach()
endfunction()

# lily_test(NAME [DEPS ...] [LIBS ...]): the folder's *_test.cc files as one GoogleTest program NAME_test.
function(lily_test name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  add_executable(${name}_test ${sources})
  target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
  target_include_directories(${name}_test PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name}_test PRIVATE LILY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name}_test PRIVATE lily_options GTest::gtest GTest::gmock GTest::gtest_main ${ARG_LIBS})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${name}_test PRIVATE lily_${dep})
  endforeach()
  add_test(NAME ${name} COMMAND ${name}_test)
endfunction()
