// objc_msgSend for x86-64: asks for the method and jumps to it with every register that may hold an
// argument as it was, so arguments on the stack are untouched too. A message to nil returns zero.
asm(R"(
        .text
        .globl objc_msgSend
        .type objc_msgSend, @function
objc_msgSend:
        test    %rdi, %rdi
        jz      1f
        push    %rbp
        mov     %rsp, %rbp
        sub     $192, %rsp
        mov     %rdi, 0(%rsp)
        mov     %rsi, 8(%rsp)
        mov     %rdx, 16(%rsp)
        mov     %rcx, 24(%rsp)
        mov     %r8, 32(%rsp)
        mov     %r9, 40(%rsp)
        mov     %rax, 48(%rsp)
        movups  %xmm0, 64(%rsp)
        movups  %xmm1, 80(%rsp)
        movups  %xmm2, 96(%rsp)
        movups  %xmm3, 112(%rsp)
        movups  %xmm4, 128(%rsp)
        movups  %xmm5, 144(%rsp)
        movups  %xmm6, 160(%rsp)
        movups  %xmm7, 176(%rsp)
        call    lily_fake_find_method@PLT
        mov     %rax, %r11
        mov     0(%rsp), %rdi
        mov     8(%rsp), %rsi
        mov     16(%rsp), %rdx
        mov     24(%rsp), %rcx
        mov     32(%rsp), %r8
        mov     40(%rsp), %r9
        mov     48(%rsp), %rax
        movups  64(%rsp), %xmm0
        movups  80(%rsp), %xmm1
        movups  96(%rsp), %xmm2
        movups  112(%rsp), %xmm3
        movups  128(%rsp), %xmm4
        movups  144(%rsp), %xmm5
        movups  160(%rsp), %xmm6
        movups  176(%rsp), %xmm7
        leave
        jmp     *%r11
1:      xor     %eax, %eax
        xor     %edx, %edx
        pxor    %xmm0, %xmm0
        ret
        .size objc_msgSend, . - objc_msgSend
)");
